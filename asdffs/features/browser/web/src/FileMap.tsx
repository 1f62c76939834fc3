/** The parts of the file to scale and by name, and what an edit of some bytes would do. */
import { useState, type ReactElement } from 'react';
import { List, type RowComponentProps } from 'react-window';

import { urlOf, type Layout, type Part } from './api';
import { useAsked } from './asking';
import { go } from './place';
import { bytes } from './words';

const HEIGHT = 28;
/** The header of a block: its magic, its length, and 48 bytes. */
const HEADER = 54;

interface Piece {
  kind: string;
  start: number;
  size: number;
  part: Part;
}

/** The pieces of a part: of a block its header, its data, and the slack behind them. */
function pieces(part: Part): Piece[] {
  const one = (kind: string, start: number, size: number): Piece => ({ kind, start, size, part });
  if (part.block === undefined) return [one(part.kind, part.start, part.size)];
  const head = Math.min(HEADER, part.size);
  const used = Math.min(part.used ?? 0, part.size - head);
  const all = [one('block header', part.start, head), one('data', part.start + head, used), one('slack', part.start + head + used, part.size - head - used)];
  return all.filter((piece) => piece.size > 0);
}

/** The pieces that can be seen to scale: of many that are thinner than a pixel, the first. */
function visible(all: Piece[], size: number): Piece[] {
  let drawn = -1;
  return all.filter(({ start, size: length }) => {
    const end = Math.floor(((start + length) / size) * 4000);
    if (end === drawn) return false;
    drawn = end;
    return true;
  });
}

function nameOf(part: Part): string {
  return part.block === undefined ? part.kind : `block ${part.block}`;
}

function Row({ index, style, parts }: RowComponentProps<{ parts: Part[] }>): ReactElement {
  const part = parts[index]!;
  const slack = part.block === undefined ? 0 : part.size - HEADER - (part.used ?? 0);
  return (
    <div className="table-row" role="row" style={style}>
      <span role="rowheader" className="cell"><i className={`swatch ${part.block === undefined ? part.kind : 'data'}`} /> {nameOf(part)}</span>
      <span role="cell" className="cell number">{part.start.toLocaleString()}</span>
      <span role="cell" className="cell number">{part.size.toLocaleString()}</span>
      <span role="cell" className="cell number">{part.block === undefined ? '' : slack.toLocaleString()}</span>
      <span role="cell" className="cell">{part.compression ?? ''}</span>
      <span role="cell" className="cell wide">
        {part.block !== undefined && <a href={urlOf('download', { what: 'block', name: part.block })} download aria-label={`Download block ${part.block}`}>.bin</a>}
        {part.arrays?.map((name) => <button key={name} type="button" className="link" onClick={() => go({ view: 'array', name })}>{name}</button>)}
      </span>
    </div>
  );
}

const GROWTH: Record<Layout['growth'], string> = {
  clone: 'by cloning them (no data are copied on this file system)',
  insert: 'by inserting room in front of them (no data are copied on this file system)',
  copy: 'by a copy of the file (this file system can neither clone nor insert)',
};

/** What growing the tree by `count` bytes does: the same rules as a save. */
export function effect(layout: Layout, count: number): string {
  const tree = layout.parts.findIndex((part) => part.kind === 'tree');
  const next = layout.parts[tree + 1];
  const blocks = layout.parts.filter((part) => part.block !== undefined).length;
  if (!blocks) return 'The file has no blocks: the tree grows at the end of the file.';
  const room = next?.kind === 'padding' ? next.size : 0;
  if (count <= room) return `It fits the padding behind the tree (${bytes(room)}): only the tree is written, in place.`;
  return `It does not fit the padding (${bytes(room)}): ${blocks} ${blocks === 1 ? 'block moves' : 'blocks move'}, ${GROWTH[layout.growth]}. Afterwards there is new padding.`;
}

export function FileMap({ version }: { version: string }): ReactElement {
  const { found, error } = useAsked<Layout>('layout', {}, version);
  const [count, setCount] = useState(1000);
  if (error) return <p role="alert">{error}</p>;
  if (!found) return <p className="hint">reading…</p>;
  const all = found.parts.flatMap(pieces);
  const sums = new Map<string, { size: number; count: number }>();
  for (const { kind, size } of all) {
    const sum = sums.get(kind) ?? { size: 0, count: 0 };
    sums.set(kind, { size: sum.size + size, count: sum.count + 1 });
  }
  return (
    <div className="map-view">
      <p>{bytes(found.size)} in {found.parts.length.toLocaleString()} parts, to scale:</p>
      <svg className="map" role="img" aria-label="The parts of the file to scale">
        {visible(all, found.size).map((piece) => (
          <rect key={piece.start} className={piece.kind.replace(' ', '-')} x={`${(100 * piece.start) / found.size}%`} width={`${(100 * piece.size) / found.size}%`} height="100%"
            onClick={() => { const [name] = piece.part.arrays ?? []; if (name) go({ view: 'array', name }); }}>
            <title>{`${nameOf(piece.part)}, ${piece.kind}: ${bytes(piece.size)} at ${piece.start.toLocaleString()}`}</title>
          </rect>
        ))}
      </svg>
      <ul className="legend">
        {[...sums].map(([kind, sum]) => (
          <li key={kind}><i className={`swatch ${kind.replace(' ', '-')}`} /> {kind}: {bytes(sum.size)}{sum.count > 1 && ` in ${sum.count.toLocaleString()}`}</li>
        ))}
      </ul>
      <div className="table parts" role="table" aria-label="The parts of the file" aria-rowcount={found.parts.length + 1}>
        <div className="table-row head" role="row">
          {['part', 'first byte', 'bytes', 'slack', 'compression', 'arrays'].map((name) => <span key={name} role="columnheader" className={name === 'arrays' ? 'cell wide' : 'cell'}>{name}</span>)}
        </div>
        <List className="table-body" role="rowgroup" tabIndex={0} rowComponent={Row} rowCount={found.parts.length} rowHeight={HEIGHT} rowProps={{ parts: found.parts }}
          style={{ height: `min(50vh, ${found.parts.length * HEIGHT + 2}px)` }} />
      </div>
      <p className="edit">
        <label>If the tree grows by <input type="number" min={0} value={count} onChange={(event) => setCount(Math.max(0, Number(event.target.value)))} /> bytes: </label>
        <span id="effect" role="status">{effect(found, count)}</span>
      </p>
    </div>
  );
}
