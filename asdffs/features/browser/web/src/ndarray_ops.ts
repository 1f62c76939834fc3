/** The part of the package `ndarray-ops` that h5web uses; see `ndarray.ts`. */
import type { NdArray } from './ndarray';

/** Copy the elements of `from` to `to`, which has the same shape. */
export function assign(to: NdArray, from: NdArray): void {
  const walk = (axis: number, i: number, j: number): void => {
    if (axis === to.dimension) {
      to.data[i] = from.data[j]!;
      return;
    }
    for (let k = 0; k < to.shape[axis]!; k++) walk(axis + 1, i + k * to.stride[axis]!, j + k * from.stride[axis]!);
  };
  walk(0, to.offset, from.offset);
}
