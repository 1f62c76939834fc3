/** The element below the pointer, which many parts of the page show, and the image need not be drawn for. */
import { useSyncExternalStore } from 'react';

export interface Pointed {
  row: number;
  column: number;
}

let pointed: Pointed | null = null;
const listeners = new Set<() => void>();

export function point(at: Pointed | null): void {
  if (at?.row === pointed?.row && at?.column === pointed?.column) return;
  pointed = at;
  listeners.forEach((listener) => listener());
}

export function usePointed(): Pointed | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => pointed,
  );
}
