/** The tiles of an image: asked for when they are seen, kept as long as there is room. */
import { getLayerSizes, TilesApi } from '@h5web/lib';
import ndarray, { type NdArray } from 'ndarray';
import type { Vector2 } from 'three';

import { askNumbers, type Limits, type Numbers, type Query } from './api';
import { stretched } from './stretches';

/** Numbers of tiles that are kept, over all images: 64 MiB of float32. */
const ROOM = 16 << 20;

/** What a whole image is reduced to if no element may be left out on the smallest screen. */
const COARSE = { width: 128, height: 128 };

type Wanted = Numbers | Error | Promise<void>;

const kept = new Map<string, Wanted>();

/** Return a tile; throw a promise while it is on its way, as React's Suspense has it. */
function tileOf(query: Query): Numbers {
  const key = JSON.stringify(query);
  const found = kept.get(key);
  if (found instanceof Promise) throw found; // eslint-disable-line @typescript-eslint/only-throw-error
  if (found instanceof Error) throw found; // kept, or React would ask again and again
  if (found) {
    kept.delete(key);
    kept.set(key, found); // the tile that was used last goes last
    return found;
  }
  const coming = askNumbers('tile', query).then(
    (numbers) => keep(key, numbers),
    (error: Error) => void kept.set(key, error),
  );
  kept.set(key, coming);
  throw coming; // eslint-disable-line @typescript-eslint/only-throw-error
}

/** Ask again for the tiles that could not be read. */
export function forgetErrors(): void {
  for (const [key, one] of kept) if (one instanceof Error) kept.delete(key);
}

function keep(key: string, numbers: Numbers): void {
  kept.set(key, numbers);
  const size = (one: Wanted): number => (one instanceof Promise || one instanceof Error ? 0 : one.values.length);
  let sum = [...kept.values()].reduce((total, one) => total + size(one), 0);
  for (const [other, one] of kept) {
    if (sum <= ROOM) break;
    if (other === key || size(one) === 0) continue;
    sum -= size(one);
    kept.delete(other);
  }
}

/** An array `name` of a `file`, the `index` of its plane; `minus`: the file whose array is subtracted. */
export interface Image {
  file: string;
  name: string;
  index: string;
  version: string;
  minus?: string;
  minusVersion?: string;
}

/** One image as it is shown: its plane of `rows` and `columns`, its limits and its stretch; `coarse`: also very small. */
export class Tiles extends TilesApi {
  private readonly shown = new WeakMap<Numbers, NdArray<Float32Array>>();

  constructor(
    private readonly image: Image,
    [rows, columns]: [number, number],
    side: number,
    private readonly limits: Limits,
    private readonly stretch: string,
    coarse: boolean,
  ) {
    const tile = { width: side, height: side };
    super(tile, getLayerSizes({ width: columns, height: rows }, coarse ? COARSE : tile));
  }

  override get(layer: number, offset: Vector2): NdArray<Float32Array> {
    const step = 2 ** (this.baseLayerIndex - layer);
    const row = Math.floor(offset.y / this.tileSize.height);
    const column = Math.floor(offset.x / this.tileSize.width);
    const { file, name, index, version, minus, minusVersion } = this.image;
    const numbers = tileOf({ file, name, index, version, step, row, column });
    const other = minus ? tileOf({ file: minus, name, index, version: minusVersion, step, row, column }).values : undefined;
    let shown = this.shown.get(numbers);
    if (!shown) {
      const values = other ? numbers.values.map((value, i) => value - other[i]!) : numbers.values;
      shown = ndarray(stretched(values, this.limits, this.stretch), numbers.shape);
      this.shown.set(numbers, shown);
    }
    return shown;
  }
}
