/** A table: rows a part at a time, with units; sorted, chosen by a condition, one column drawn against another. */
import { useCallback, useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { List, type RowComponentProps } from 'react-window';

import { ask, type Column, type Query, type Rows } from './api';
import { LineView } from './LineView';
import { change, usePlace } from './place';

const HEIGHT = 26;
/** A browser makes no element higher than some ten million pixels. */
const REACHED = 500_000;

interface RowProps {
  rows: Map<number, { number: number; cells: string[] }>;
  columns: Column[];
  /** Of the columns, in CSS. */
  widths: string[];
}

/** How wide the columns are: as the widest text of the first rows, but not wider than a long number. */
function widthsOf(facts: Rows | undefined): string[] {
  const wide = (texts: string[]): number => Math.max(...texts.map((text) => text.length));
  const inside = (column: Column, place: number): number => Math.min(26, Math.max(5, column.name.length + 3, column.unit.length, wide(['', ...facts!.rows.map((row) => row[place]!)])));
  return facts?.columns.map((column, place) => `calc(${inside(column, place)}ch + 1.2rem)`) ?? [];
}

function Row({ index, style, rows, columns, widths }: RowComponentProps<RowProps>): ReactElement {
  const row = rows.get(index);
  return (
    <div className="table-row" role="row" aria-rowindex={index + 2} style={style}>
      <span role="rowheader" className="cell number">{row?.number ?? '…'}</span>
      {columns.map((column, place) => {
        const text = row?.cells[place] ?? '';
        return (
          <span key={column.name} role="cell" title={text} style={{ flexBasis: widths[place], width: widths[place] }} className={column.numeric ? 'cell number' : 'cell'} data-masked={text === '--' ? '' : undefined}>
            {text}
          </span>
        );
      })}
    </div>
  );
}

export function axisLabel(name: string, unit: string): string {
  return unit ? `${name} (${unit})` : name;
}

export function TableView({ path, version }: { path: string; version: string }): ReactElement {
  const place = usePlace();
  const [facts, setFacts] = useState<Rows>();
  const [error, setError] = useState('');
  const [rows, setRows] = useState<RowProps['rows']>(new Map());
  const asked = useRef(new Set<number>());
  const [where, setWhere] = useState(place.where ?? '');
  const query: Query = { path, sort: place.sort, descending: place.down, where: place.where };
  const words = JSON.stringify([query, version]);

  const fetchPart = useCallback(async (start: number, key: string): Promise<void> => {
    const mine = asked.current; // of this order of the rows: another one begins with a new set
    if (mine.has(start)) return;
    mine.add(start);
    try {
      const found = await ask<Rows>('rows', { ...(JSON.parse(key) as [Query])[0], start });
      if (mine !== asked.current) return;
      setError('');
      setFacts(found);
      setRows((before) => {
        const after = new Map(before);
        found.rows.forEach((cells, i) => after.set(found.first + i, { number: found.numbers[i]!, cells }));
        return after;
      });
    } catch (refusal) {
      mine.delete(start);
      if (mine === asked.current) setError((refusal as Error).message);
    }
  }, []);
  useEffect(() => {
    asked.current = new Set();
    setRows(new Map());
    void fetchPart(0, words);
  }, [words, fetchPart]);

  const columns = facts?.columns ?? [];
  const widths = useMemo(() => widthsOf(facts), [facts]);
  const numeric = columns.filter((one) => one.numeric);
  const [x, y] = [numeric.find((one) => one.name === place.x), numeric.find((one) => one.name === place.y)];
  const sort = (name: string): void =>
    change(place.sort !== name ? { sort: name, down: undefined } : place.down ? { sort: undefined, down: undefined } : { down: '1' });
  return (
    <div className="table-view">
      <form className="bar" onSubmit={(event) => { event.preventDefault(); change({ where }); }}>
        <label>
          Rows where{' '}
          <input id="where" size={24} placeholder={numeric[0] ? `${numeric[0].name} > 0` : 'NAME == "x"'} value={where}
            onChange={(event) => setWhere(event.target.value)} />
        </label>
        <button>Filter</button>
        <span id="counted" role="status">{facts && (facts.count < facts.total ? `${facts.count.toLocaleString()} of ${facts.total.toLocaleString()} rows` : `${facts.total.toLocaleString()} rows`)}</span>
        {numeric.length > 1 && (['x', 'y'] as const).map((axis) => (
          <label key={axis}>{axis === 'x' ? 'Plot x' : 'y'}{' '}
            <select id={`plot-${axis}`} value={place[axis] ?? ''} onChange={(event) => change({ [axis]: event.target.value })}>
              <option value="">…</option>
              {numeric.map((one) => <option key={one.name}>{one.name}</option>)}
            </select>
          </label>
        ))}
      </form>
      {error && <p role="alert">{error}</p>}
      {facts && facts.count > REACHED && <p className="hint">The list ends after {REACHED.toLocaleString()} rows: choose rows by a condition, or sort.</p>}
      {facts && facts.left.length > 0 && <p className="hint">Not shown: {facts.left.join(', ')}</p>}
      {x && y && (
        <LineView what="columns" query={{ path, x: x.name, y: y.name, where: place.where }} version={version} rows={[1, 2]}
          across={axisLabel(x.name, x.unit)} up={axisLabel(y.name, y.unit)} points={!/wave|freq|energy|time/i.test(x.name)} />
      )}
      {facts && (
        <div className="table" role="table" aria-label={path} aria-rowcount={facts.count + 1} aria-colcount={columns.length + 1}>
          <div className="table-row head" role="row" aria-rowindex={1}>
            <span role="columnheader" className="cell number">row</span>
            {columns.map((column, at) => {
              const order = place.sort !== column.name ? 'none' : place.down ? 'descending' : 'ascending';
              return (
                <span key={column.name} role="columnheader" aria-sort={order} style={{ flexBasis: widths[at], width: widths[at] }} className={column.numeric ? 'cell number' : 'cell'}>
                  <button type="button" title={[column.description, column.dtype].filter(Boolean).join('; ')} onClick={() => sort(column.name)}>
                    {column.name}{order === 'ascending' ? ' ▲' : order === 'descending' ? ' ▼' : ''}
                  </button>
                  <small>{column.unit || ' '}</small>
                </span>
              );
            })}
          </div>
          <List className="table-body" role="rowgroup" tabIndex={0} rowComponent={Row} rowCount={Math.min(facts.count, REACHED)} rowHeight={HEIGHT} rowProps={{ rows, columns, widths }}
            style={{ height: `min(60vh, ${facts.count * HEIGHT + 2}px)` }}
            onRowsRendered={(_, all) => {
              for (let start = all.startIndex - (all.startIndex % 200); start <= all.stopIndex; start += 200) void fetchPart(start, words);
            }} />
        </div>
      )}
    </div>
  );
}
