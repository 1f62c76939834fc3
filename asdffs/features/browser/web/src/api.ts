/** Requests to the daemon; features/browser/app.py has the table of them. */
import { fileNow } from './place';

export interface Facts {
  name: string;
  size: number;
  blocks: number;
  writable: boolean;
  version: string;
  /** Of a check of the tree; null if it is too large. */
  warnings: string[] | null;
}

export type Kind = 'array' | 'table' | 'mapping' | 'sequence' | 'value';

export interface Entry {
  path: string;
  key: string;
  text: string;
  line: number;
  open: boolean;
  kind: Kind;
  tag: string;
  unit: string;
  array: string | null;
}

export interface Children {
  total: number;
  start: number;
  children: Entry[];
}

export interface ListedArray {
  path: string;
  shape: number[];
  dtype: string;
  compression: string;
  block: number | null;
  column: boolean;
}

export interface Sight {
  facts: { label: string; value: string; path: string; line: number }[];
  main: { kind: 'array' | 'table'; path: string } | null;
  arrays: ListedArray[];
  tables: string[];
  more: number;
}

export type Limits = [low: number, high: number];

export interface ArrayFacts {
  /** Of the text of the tree that the other facts belong to. */
  version: string;
  shape: number[];
  plane: number[];
  dtype: string;
  kind: string;
  bytes: number;
  unit: string;
  side: number;
  block: number | null;
  compression: string;
  masked: boolean;
  /** Whether a pixel of a tile is the greatest of its elements, and not one of them. */
  greatest: boolean;
  formats: string[];
  limits?: Record<string, Limits>;
  values?: string[];
  axis: { name: string; unit: string } | null;
  flags: Record<string, string>;
}

export interface Statistics {
  read: number;
  elements: number;
  masked: number;
  nan: number;
  infinite: number;
  min: number | string | null;
  max: number | string | null;
  mean: number | null;
  std: number | null;
  histogram: number[];
  low: number;
  high: number;
}

export interface Elements {
  row: number;
  column: number;
  values: string[][];
}

export interface Column {
  name: string;
  unit: string;
  description: string;
  dtype: string;
  shape: number[];
  numeric: boolean;
}

export interface Rows {
  total: number;
  count: number;
  first: number;
  numbers: number[];
  columns: Column[];
  rows: string[][];
  left: string[];
}

export interface SkyPlace {
  text?: string;
  longitude: number;
  latitude: number;
  frame: string;
}

export interface Compass {
  north?: [number, number];
  east: [number, number];
  scale: number;
}

export interface Part {
  kind: string;
  start: number;
  size: number;
  block?: number;
  compression?: string;
  used?: number;
  data?: number;
  arrays?: string[];
}

export interface Layout {
  size: number;
  parts: Part[];
  growth: 'clone' | 'insert' | 'copy';
}

export interface OldText {
  number: number;
  time: number;
  size: number;
}

export interface Shelf {
  files: string[];
  folders: string[];
}

export interface ListedFile {
  name: string;
  values: string[];
  outlines: [number, number][][];
}

export interface Files {
  total: number;
  start: number;
  columns: string[];
  files: ListedFile[];
  failures: string[];
}

export type Query = Record<string, string | number | undefined>;

/** A refusal of the daemon: its sentence, and the line of a text that it is about. */
export class Refusal extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly line: number | null,
  ) {
    super(message);
  }
}

/** The URL of a request about the file that is shown, or about the `file` of the query. */
export function urlOf(what: string, query: Query = {}): string {
  const words = Object.entries({ file: fileNow(), ...query }).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(words.map(([key, value]) => [key, String(value)])).toString();
  return `api/${what}${text ? `?${text}` : ''}`;
}

async function fetched(url: string, options?: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, options);
  } catch (error) {
    if (error instanceof DOMException) throw error;
    throw new Refusal('asdffs view does not answer: it has ended, or the connection is gone', 0, null);
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  try {
    const found = JSON.parse(text) as { error: string; line: number | null };
    throw new Refusal(found.error, answer.status, found.line);
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal(text, answer.status, null);
  }
}

export async function ask<T>(what: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return (await (await fetched(urlOf(what, query), { signal })).json()) as T;
}

export interface Numbers {
  shape: number[];
  values: Float32Array | Float64Array;
}

/** Ask for numbers, which come as bytes. */
export async function askNumbers(what: string, query: Query, signal?: AbortSignal): Promise<Numbers> {
  const answer = await fetched(urlOf(what, query), { signal });
  const bytes = await answer.arrayBuffer();
  const shape = (answer.headers.get('x-shape') ?? '').split(',').map(Number);
  const values = answer.headers.get('x-dtype') === '<f4' ? new Float32Array(bytes) : new Float64Array(bytes);
  return { shape, values };
}

export interface Text {
  text: string;
  version: string;
}

export async function askText(): Promise<Text> {
  const answer = await fetched(urlOf('text'));
  return { text: await answer.text(), version: (answer.headers.get('etag') ?? '').replaceAll('"', '') };
}

export async function askOldText(number: number): Promise<string> {
  return (await fetched(urlOf(`history/${number}`))).text();
}

/** Save a text over the version that it changes; return the new version. */
export async function save(text: string, over: string): Promise<string> {
  const answer = await fetched(urlOf('text'), { method: 'PUT', body: text, headers: { 'If-Match': over } });
  return ((await answer.json()) as { version: string }).version;
}
