/** The files of the page: with values of their trees, small pictures, and where they are on the sky. */
import { useState, type ReactElement } from 'react';

import { urlOf, type Files, type ListedFile } from './api';
import { useAsked } from './asking';
import { change, go, usePlace } from './place';
import { base } from './words';

const [WIDTH, HEIGHT, EDGE] = [560, 300, 34];

/** What a column is called: the key of its value, or what has that `name`. */
function heading(path: string): string {
  const [last, before] = path.split('.').reverse();
  return last === 'name' && before ? before : last!;
}

function show(name: string): void {
  go({ file: name });
}

/** Right ascension next to `middle`, so that outlines at 0 h are in one piece. */
function near(longitude: number, middle: number): number {
  return longitude + 360 * Math.round((middle - longitude) / 360);
}

/** The outlines on the sky: right ascension grows to the left, as one sees it. */
function SkyMap({ files }: { files: ListedFile[] }): ReactElement | null {
  const all = files.flatMap((file) => file.outlines.map((corners) => ({ file, corners })));
  const first = all[0]?.corners[0];
  if (!first) return null;
  const placed = all.map(({ file, corners }) => ({ file, corners: corners.map(([ra, dec]): [number, number] => [near(ra, first[0]), dec]) }));
  const points = placed.flatMap((one) => one.corners);
  const span = (axis: 0 | 1): [number, number] => {
    const values = points.map((one) => one[axis]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return [low, Math.max(high, low + 1e-6)];
  };
  const [[west, east], [south, north]] = [span(0), span(1)];
  const squeeze = Math.cos((((south + north) / 2) * Math.PI) / 180);
  const scale = Math.min((WIDTH - 2 * EDGE) / ((east - west) * squeeze), (HEIGHT - 2 * EDGE) / (north - south));
  const x = (ra: number): number => EDGE + (east - ra) * squeeze * scale;
  const y = (dec: number): number => EDGE + (north - dec) * scale;
  const degrees = (value: number): string => `${Number(value.toPrecision(7))}°`;
  return (
    <figure className="sky-map">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Outlines of the images on the sky">
        {placed.map(({ file, corners }, i) => (
          <polygon key={i} points={corners.map(([ra, dec]) => `${x(ra)},${y(dec)}`).join(' ')} onClick={() => show(file.name)}>
            <title>{base(file.name)}</title>
          </polygon>
        ))}
        <text x={EDGE} y={HEIGHT - 6}>RA {degrees(((east % 360) + 360) % 360)}</text>
        <text x={x(west)} y={HEIGHT - 6} textAnchor="end">{degrees(((west % 360) + 360) % 360)}</text>
        <text x={4} y={EDGE - 6}>Dec {degrees(north)}</text>
        <text x={4} y={y(south)}>{degrees(south)}</text>
      </svg>
    </figure>
  );
}

function Thumbnail({ name }: { name: string }): ReactElement {
  const [there, setThere] = useState(true);
  return there ? <img loading="lazy" alt="" width={64} height={64} src={urlOf('thumbnail', { file: name })} onError={() => setThere(false)} /> : <span className="hint">no image</span>;
}

export function FilesView(): ReactElement {
  const place = usePlace();
  const start = Number(place.index ?? 0);
  const { found, error } = useAsked<Files>('files', { where: place.where, columns: place.columns, start });
  const [where, setWhere] = useState(place.where ?? '');
  const [columns, setColumns] = useState<string>();
  const last = (found?.start ?? 0) + (found?.files.length ?? 0);
  return (
    <div className="files-view">
      <form className="bar" onSubmit={(event) => { event.preventDefault(); change({ where, columns, index: undefined }); }}>
        <label>Files where <input id="files-where" size={34} placeholder={'roman.meta.instrument.name == "WFI"'} value={where} onChange={(event) => setWhere(event.target.value)} /></label>
        <label>Columns <input id="files-columns" size={34} value={columns ?? place.columns ?? found?.columns.join(',') ?? ''} onChange={(event) => setColumns(event.target.value)} /></label>
        <button>Filter</button>
        {found && <span id="files-counted" role="status">{found.total.toLocaleString()} {found.total === 1 ? 'file' : 'files'}</span>}
      </form>
      {error && <p role="alert">{error}</p>}
      {found?.failures.map((one) => <p key={one} role="alert">{one}</p>)}
      {found && <SkyMap files={found.files} />}
      {found && (
        <div className="table">
          <table className="files">
            <thead>
              <tr><th scope="col">image</th><th scope="col">file</th>{found.columns.map((one) => <th key={one} scope="col" title={one}>{heading(one)}</th>)}</tr>
            </thead>
            <tbody>
              {found.files.map((file) => (
                <tr key={file.name}>
                  <td><Thumbnail name={file.name} /></td>
                  <th scope="row"><button type="button" className="link" onClick={() => show(file.name)}>{base(file.name)}</button></th>
                  {file.values.map((value, i) => <td key={i}>{value}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {found && found.total > found.files.length && (
        <p className="bar">
          <button type="button" disabled={start === 0} onClick={() => change({ index: String(Math.max(0, start - 200)) })}>Before</button>
          {found.start + 1} to {last}
          <button type="button" disabled={last >= found.total} onClick={() => change({ index: String(last) })}>Next</button>
        </p>
      )}
    </div>
  );
}
