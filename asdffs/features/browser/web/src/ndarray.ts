/** The part of the package `ndarray` that h5web uses, without generated code, which the page's policy forbids. */
type Numbers = ArrayLike<number> & Record<number, number>;

/** A view of numbers: `shape`, and the steps (`stride`) from one element to the next along each axis. */
export class NdArray {
  readonly dimension: number;
  readonly size: number;
  readonly dtype: string;

  constructor(
    readonly data: Numbers,
    readonly shape: number[],
    readonly stride: number[],
    readonly offset: number,
  ) {
    this.dimension = shape.length;
    this.size = shape.reduce((a, b) => a * b, 1);
    const kind = data.constructor.name.replace('Array', '').replace('Clamped', '_clamped').toLowerCase();
    this.dtype = Array.isArray(data) ? 'array' : kind;
  }

  index(...at: number[]): number {
    return at.reduce((sum, place, axis) => sum + place * this.stride[axis]!, this.offset);
  }

  get(...at: number[]): number {
    return this.data[this.index(...at)]!;
  }

  set(...words: number[]): number {
    return (this.data[this.index(...words.slice(0, -1))] = words.at(-1)!);
  }
}

export default function ndarray(data: Numbers, shape: number[] = [data.length], stride?: number[], offset = 0): NdArray {
  const steps = stride ?? shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  return new NdArray(data, shape, steps, offset);
}
