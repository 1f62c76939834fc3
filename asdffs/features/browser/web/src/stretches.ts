/** How numbers become grey levels: the stretches of DS9, between what is black and what is white. */
import type { ColorMap } from '@h5web/lib';

import type { Limits } from './api';

/** `up` bends [0, 1] to [0, 1]; `down` is its inverse. */
interface Stretch {
  up: (part: number) => number;
  down: (part: number) => number;
}

export const STRETCHES: Record<string, Stretch> = {
  linear: { up: (x) => x, down: (x) => x },
  sqrt: { up: Math.sqrt, down: (x) => x * x },
  asinh: { up: (x) => Math.asinh(10 * x) / Math.asinh(10), down: (x) => Math.sinh(x * Math.asinh(10)) / 10 },
  log: { up: (x) => Math.log1p(1000 * x) / Math.log1p(1000), down: (x) => Math.expm1(x * Math.log1p(1000)) / 1000 },
};

/** A colour map of h5web, whether it is turned round, and the colour of NaN and masked elements, which it has not. */
interface Colours {
  map: ColorMap;
  turned: boolean;
  nan: string;
}

const [AZURE, PINK] = ['#1478ff', '#e0218a'];

/** The first is the default. */
export const COLOURS: Record<string, Colours> = {
  gray: { map: 'Greys', turned: false, nan: PINK },
  viridis: { map: 'Viridis', turned: false, nan: PINK },
  magma: { map: 'Magma', turned: false, nan: AZURE },
  inferno: { map: 'Inferno', turned: false, nan: AZURE },
  cividis: { map: 'Cividis', turned: false, nan: PINK },
  turbo: { map: 'Turbo', turned: false, nan: '#ffffff' },
  'red-blue': { map: 'RdBu', turned: true, nan: '#4fae3c' },
};

/** The colours called `name`, of the first ones if it is none. */
export function coloursOf(name: string): Colours {
  return COLOURS[name] ?? COLOURS.gray!;
}

/** Numbers from 0 (black) to 1 (white); NaN stays. */
export function stretched(values: ArrayLike<number>, [low, high]: Limits, stretch: string): Float32Array {
  const { up } = STRETCHES[stretch] ?? STRETCHES.linear!;
  const found = new Float32Array(values.length);
  const spread = high > low ? high - low : 1;
  for (let i = 0; i < values.length; i++) {
    const part = (values[i]! - low) / spread;
    found[i] = Number.isNaN(part) ? NaN : up(Math.min(1, Math.max(0, part)));
  }
  return found;
}

/** The number at a part of the colour bar. */
export function valueAt(part: number, [low, high]: Limits, stretch: string): number {
  return low + (high - low) * (STRETCHES[stretch] ?? STRETCHES.linear!).down(part);
}
