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

  lo(...from: (number | null | undefined)[]): NdArray {
    const shape = this.shape.map((count, axis) => count - (from[axis] ?? 0));
    return new NdArray(this.data, shape, this.stride, this.index(...this.shape.map((_, axis) => from[axis] ?? 0)));
  }

  hi(...to: (number | null | undefined)[]): NdArray {
    return new NdArray(this.data, this.shape.map((count, axis) => to[axis] ?? count), this.stride, this.offset);
  }

  transpose(...axes: number[]): NdArray {
    const of = (values: number[]): number[] => values.map((_, axis) => values[axes[axis] ?? axis]!);
    return new NdArray(this.data, of(this.shape), of(this.stride), this.offset);
  }

  pick(...at: (number | null | undefined)[]): NdArray {
    const place = (axis: number): number => at[axis] ?? -1;
    const left = this.shape.map((_, axis) => axis).filter((axis) => place(axis) < 0);
    const offset = this.index(...this.shape.map((_, axis) => Math.max(0, place(axis))));
    return new NdArray(this.data, left.map((axis) => this.shape[axis]!), left.map((axis) => this.stride[axis]!), offset);
  }
}

export default function ndarray(data: Numbers, shape: number[] = [data.length], stride?: number[], offset = 0): NdArray {
  const steps = stride ?? shape.map((_, axis) => shape.slice(axis + 1).reduce((a, b) => a * b, 1));
  return new NdArray(data, shape, steps, offset);
}
