/** What many parts of the page show of the image, which need not be drawn again for it. */
import { useSyncExternalStore } from 'react';

/** A value that components follow: how it is put, and how it is used. */
function followed<T>(first: T): [put: (value: T) => void, use: () => T] {
  let now = first;
  const listeners = new Set<() => void>();
  const put = (value: T): void => {
    if (JSON.stringify(value) === JSON.stringify(now)) return;
    now = value;
    listeners.forEach((listener) => listener());
  };
  const follow = (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return [put, () => useSyncExternalStore(follow, () => now)];
}

/** The element below the pointer. */
export const [point, usePointed] = followed<{ row: number; column: number } | null>(null);
/** Pixels of the screen for an element of the image. */
export const [tellZoom, useZoom] = followed(1);
