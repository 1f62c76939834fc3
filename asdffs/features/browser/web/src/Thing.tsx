/** What is selected: an array as an image or a curve or texts, a table, or the first sight of the file. */
import type { ReactElement } from 'react';

import { type ArrayFacts, type Facts, type Sight } from './api';
import { useAsked } from './asking';
import { ImageView } from './ImageView';
import { LineView } from './LineView';
import { change, go, usePlace } from './place';
import { axisLabel, TableView } from './TableView';
import { bytes, shape } from './words';

/** An array of one axis, or of more than two that is drawn line by line, with its axis if the tree has it. */
function Curve({ name, facts, version }: { name: string; facts: ArrayFacts; version: string }): ReactElement {
  const along = facts.axis;
  return (
    <LineView what="curve" query={{ name, along: along?.name }} version={version} rows={[0, 1]}
      across={along ? axisLabel(along.name.split('/').filter((one) => one !== 'value').at(-1)!, along.unit) : 'element'}
      up={axisLabel(name.split('/').filter((one) => one !== 'value').at(-1)!, facts.unit)} points={false} />
  );
}

interface ArrayProps {
  name: string;
  version: string;
  sight: Sight | undefined;
  others: string[];
}

export function ArrayView({ name, version, sight, others }: ArrayProps): ReactElement {
  const place = usePlace();
  const { found, error } = useAsked<ArrayFacts>('array', { name, index: place.index }, version);
  if (error) {
    return (
      <div role="alert">
        <p>{error}</p>
        {place.index && <button type="button" onClick={() => change({ index: undefined })}>Show the first plane</button>}
      </div>
    );
  }
  if (!found) return <p className="hint">reading…</p>;
  if (found.values) {
    const count = found.shape.reduce((a, b) => a * b, 1);
    return (
      <>
        {found.values.length < count && <p className="hint">The first {found.values.length.toLocaleString()} of {count.toLocaleString()} elements.</p>}
        <ol className="values" start={0}>{found.values.map((text, i) => <li key={i}>{text}</li>)}</ol>
      </>
    );
  }
  if (found.shape.includes(0)) return <p>The array has no element: its shape is {shape(found.shape)}.</p>;
  if (found.shape.length >= 2) return <ImageView key={name} name={name} facts={found} arrays={sight?.arrays ?? []} tables={sight?.tables ?? []} others={others} />;
  return <Curve name={name} facts={found} version={found.version} />;
}

/** The first sight of a file: what it is, its main array, all arrays. */
export function FirstSight({ facts, sight, version, others }: { facts: Facts; sight: Sight; version: string; others: string[] }): ReactElement {
  const rows: { label: string; value: string; line: number }[] = [
    ...sight.facts, { label: 'Size', value: `${bytes(facts.size)}, ${facts.blocks} ${facts.blocks === 1 ? 'block' : 'blocks'}`, line: 0 },
  ];
  const columns = sight.arrays.filter((one) => one.column).length;
  return (
    <div className="sight">
      <dl className="facts">
        {rows.map(({ label, value, line }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{line ? <button type="button" className="link" onClick={() => go({ view: 'text', line: String(line) })}>{value}</button> : value}</dd>
          </div>
        ))}
      </dl>
      {!facts.warnings && <p className="hint">The tree is too large to be checked here: <code>asdffs check</code> does.</p>}
      {facts.warnings && facts.warnings.length > 0 && (
        <details className="notes">
          <summary>{facts.warnings.length} {facts.warnings.length === 1 ? 'note' : 'notes'} of the check</summary>
          <ul>{facts.warnings.map((one) => <li key={one}>{one}</li>)}</ul>
        </details>
      )}
      {sight.main && (
        <section aria-label={sight.main.path}>
          <h2>{sight.main.path}</h2>
          {sight.main.kind === 'array' ? <ArrayView name={sight.main.path} version={version} sight={sight} others={others} /> : <TableView path={sight.main.path} version={version} />}
        </section>
      )}
      <h2>{sight.arrays.length + sight.more ? 'Arrays' : 'The file has no array'}</h2>
      <ul className="arrays">
        {sight.tables.map((path) => <li key={path}><button type="button" className="link" onClick={() => go({ view: 'table', name: path })}>{path}</button> table</li>)}
        {sight.arrays.filter((one) => !one.column).map((one) => (
          <li key={one.path}>
            <button type="button" className="link" onClick={() => go({ view: one.dtype === 'record' ? 'table' : 'array', name: one.path })}>{one.path}</button>
            {' '}{one.dtype} {shape(one.shape)}{one.compression && one.compression !== 'none' ? `, ${one.compression}` : ''}
          </li>
        ))}
      </ul>
      {columns > 0 && <p className="hint">and {columns} columns of tables</p>}
      {sight.more > 0 && <p className="hint">and {sight.more.toLocaleString()} more arrays: the tree has them all</p>}
    </div>
  );
}
