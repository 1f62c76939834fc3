/** The colours of the style sheet, for what WebGL draws. */
import { useSyncExternalStore } from 'react';

const DARK = matchMedia('(prefers-color-scheme: dark)');

/** The value of a property such as `--mark`, by the scheme of the system. */
export function useColour(name: string): string {
  return useSyncExternalStore(
    (listener) => {
      DARK.addEventListener('change', listener);
      return () => DARK.removeEventListener('change', listener);
    },
    () => {
      const [light, dark] = getComputedStyle(document.documentElement).getPropertyValue(name).match(/#[0-9a-f]{6}/gi) ?? [];
      return (DARK.matches ? dark : light) ?? '#3f74b5';
    },
  );
}
