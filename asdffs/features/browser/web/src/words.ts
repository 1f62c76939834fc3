/** Numbers and sizes as people read them. */

export function bytes(count: number): string {
  let [size, unit] = [count, 'bytes'];
  for (const larger of ['KiB', 'MiB', 'GiB', 'TiB']) {
    if (size < 1024) break;
    [size, unit] = [size / 1024, larger];
  }
  return `${Number(size.toPrecision(4))} ${unit}`;
}

export function number(value: number | string | null | undefined, digits = 6): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' || Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(digits)));
}

/** A number beside an axis: as many digits as it needs to differ from the next one. */
export function tick(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return Number(value.toPrecision(8)).toExponential().replace('e+', 'e');
  return Number(value.toPrecision(10)).toLocaleString('en', { maximumFractionDigits: 10 });
}

export function base(name: string): string {
  return name.split('/').at(-1)!;
}

/** The last part of a path; all of it if others end with the same. */
export function brief(name: string, all: string[]): string {
  return all.some((other) => other !== name && base(other) === base(name)) ? name : base(name);
}

export function shape(lengths: readonly number[]): string {
  return lengths.length ? lengths.join(' × ') : 'one element';
}

/** How an array is named in Python and on the command line. */
export function python(file: string, name: string): string {
  return `import asdffs\n\nwith asdffs.open(${JSON.stringify(file)}) as file:\n    data = file.arrays[${JSON.stringify(name)}][...]\n`;
}
