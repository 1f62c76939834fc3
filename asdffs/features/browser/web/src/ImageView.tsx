/** An image with its settings, colour bar, histogram, the values below the pointer and its place on the sky. */
import { Histogram, ScaleType } from '@h5web/lib';
import { useEffect, useState, type ReactElement } from 'react';

import { ask, type ArrayFacts, type Compass, type Elements, type Limits, type ListedArray, type SkyPlace, type Statistics } from './api';
import { useAsked, useLatest, type Asked } from './asking';
import { Beside } from './Beside';
import { ColourBar } from './ColourBar';
import { ImageCanvas, Zoom, type Region, type Source } from './ImageCanvas';
import { change, usePlace } from './place';
import { usePointed } from './pointer';
import { COLOURS, coloursOf, STRETCHES } from './stretches';
import { brief, number } from './words';

interface Props {
  name: string;
  facts: ArrayFacts;
  arrays: ListedArray[];
  tables: string[];
  /** The other files of the page, to compare with. */
  others: string[];
}

/** How long an array is shown while two blink, in milliseconds. */
const BLINK = 800;
const PLAY = 400;
/** Statistics are asked for when an image stays so long: not of each one that a slider passes. */
const PAUSE = 500;

function flagsIn(value: string, names: Record<string, string>): string {
  const bits = BigInt(value).toString(2);
  const set = [...bits].flatMap((bit, place) => (bit === '1' ? [bits.length - 1 - place] : []));
  return set.map((bit) => names[bit] ?? `bit ${bit}`).join(', ');
}

interface ReadoutProps {
  file: string;
  name: string;
  minus: string | undefined;
  index: string;
  facts: ArrayFacts;
  version: string;
}

/** The elements around the pointer, and where it is on the sky. */
function Readout({ file, name, minus, index, facts, version }: ReadoutProps): ReactElement {
  const pointed = usePointed();
  const [found, setFound] = useState<Elements & { at: string; other?: string }>();
  const [sky, setSky] = useState<SkyPlace & { at: string }>();
  const look = useLatest(async (at: { file: string; name: string; index: string; row: number; column: number }) => {
    const key = JSON.stringify(at);
    try {
      const other = minus ? (await ask<Elements>('elements', { ...at, file: minus, around: 0 })).values[0]![0]! : undefined;
      setFound({ ...(await ask<Elements>('elements', { ...at, around: 2 })), at: key, other });
    } catch {
      setFound(undefined); // the picture itself tells what is wrong
      return;
    }
    try {
      setSky({ ...(await ask<SkyPlace>('sky', { file, name: at.name, row: at.row, column: at.column })), at: key });
    } catch {
      setSky(undefined);
    }
  });
  useEffect(() => {
    if (pointed) look({ file, name, index, ...pointed });
  }, [pointed, file, name, minus, index, version]); // eslint-disable-line react-hooks/exhaustive-deps
  if (!pointed) return <p className="readout hint">Point at the image to read values; the wheel zooms, dragging moves. Shift and drag for statistics of a region.</p>;
  const key = JSON.stringify({ file, name, index, ...pointed });
  const known = found?.at === key ? found : undefined;
  const value = known?.values[pointed.row - known.row]?.[pointed.column - known.column];
  const flags = value && /^[1-9]\d*$/.test(value) && facts.kind === 'u' ? flagsIn(value, facts.flags) : '';
  return (
    <div className="readout">
      <p id="pixel" role="status" data-settled={known ? 'true' : undefined}>
        <span className="at" title="counted from 0">row {pointed.row}, column {pointed.column}</span> <strong>{value ?? '…'}</strong> {known?.other !== undefined && <>− <strong>{known.other}</strong></>} {facts.unit}
        {flags && <span className="flags">{flags}</span>}
        {sky?.at === key && sky.text && (
          <span className="sky">
            {sky.text} ({sky.longitude.toFixed(6)}°, {sky.latitude.toFixed(6)}°, {sky.frame})
          </span>
        )}
      </p>
      {known && (
        <table className="elements" aria-label="Values around the pointer">
          <thead>
            <tr><th />{known.values[0]!.map((_, column) => <th key={column} scope="col">{known.column + column}</th>)}</tr>
          </thead>
          <tbody>
            {known.values.map((_, line, all) => {
              const at = all.length - 1 - line; // the first row is at the bottom, as in the image
              return (
                <tr key={at}>
                  <th scope="row">{known.row + at}</th>
                  {all[at]!.map((text, column) => (
                    <td key={column} data-here={known.row + at === pointed.row && known.column + column === pointed.column ? '' : undefined}>
                      {text}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </div>
  );
}

function Numbers({ found, unit, of }: { found: Statistics; unit: string; of: string }): ReactElement {
  const words: [string, string][] = [
    ['min', number(found.min)], ['max', number(found.max)], ['mean', number(found.mean)], ['std', number(found.std)],
    ['NaN', found.nan ? found.nan.toLocaleString() : ''], ['infinite', found.infinite ? found.infinite.toLocaleString() : ''],
    ['masked', found.masked ? found.masked.toLocaleString() : ''],
  ];
  const sample = found.read < found.elements ? `, from ${found.read.toLocaleString()} of ${found.elements.toLocaleString()} elements` : '';
  return (
    <section className="numbers" aria-label={`Statistics of ${of}`}>
      <p className="of">{of}{sample}{unit && `, in ${unit}`}</p>
      <dl>
      {words.filter(([, text]) => text).map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
      </dl>
    </section>
  );
}

/** The histogram, whose limits can be dragged, and the statistics of the image and of a region. */
function Levels({ all, name, index, version, limits, region, unit, colours, invert }: {
  all: Asked<Statistics>; name: string; index: string; version: string; limits: Limits; region: Region | null; unit: string; colours: string; invert: boolean;
}): ReactElement {
  const [log, setLog] = useState(true);
  const part = useAsked<Statistics>(region ? 'statistics' : null, { name, index, ...region }, version);
  const found = all.found;
  if (all.error) return <p role="alert">{all.error}</p>;
  if (!found) return <p className="hint">counting…</p>;
  const { map, turned } = coloursOf(colours);
  const beyond = found.read - found.masked - found.nan - found.infinite - found.histogram.reduce((sum, count) => sum + count, 0);
  const edges = Array.from({ length: found.histogram.length + 1 }, (_, i) => found.low + ((found.high - found.low) * i) / found.histogram.length);
  const heights = log ? found.histogram.map((count) => Math.log10(1 + count)) : found.histogram;
  return (
    <div className="levels">
      {found.histogram.length > 1 && (
        <figure className="histogram" aria-label="Histogram">
          <Histogram
            values={heights}
            bins={edges}
            scaleType={ScaleType.Linear}
            dataDomain={[found.low, found.high]}
            value={limits}
            colorMap={map}
            invertColorMap={invert !== turned}
            onChangeMin={(low) => change({ low: String(Number(low.toPrecision(7))), high: String(limits[1]) })}
            onChangeMax={(high) => change({ low: String(limits[0]), high: String(Number(high.toPrecision(7))) })}
          />
          <label>
            <input type="checkbox" checked={log} onChange={(event) => setLog(event.target.checked)} /> log₁₀ of counts{beyond > 0 && `; ${beyond.toLocaleString()} lie outside`}
          </label>
        </figure>
      )}
      <Numbers found={found} unit={unit} of={index ? 'this plane' : 'whole image'} />
      {region && part.error && part.fresh && <p role="alert">{part.error}</p>}
      {region && part.found && part.fresh && (
        <Numbers found={part.found} unit={unit} of={`rows ${region.row} to ${region.row + region.rows - 1}, columns ${region.column} to ${region.column + region.columns - 1}`} />
      )}
    </div>
  );
}

/** Sliders for the axes before the last two; one of them can play. */
function Planes({ shape, index }: { shape: number[]; index: number[] }): ReactElement {
  const [playing, setPlaying] = useState(false);
  const last = index.length - 1;
  const put = (axis: number, at: number): void => change({ index: index.map((one, other) => (other === axis ? at : one)).join(',') });
  useEffect(() => {
    if (!playing) return;
    const timer = setInterval(() => put(last, (index[last]! + 1) % shape[last]!), PLAY);
    return () => clearInterval(timer);
  });
  return (
    <div className="planes">
      {index.map((at, axis) => (
        <label key={axis}>
          axis {axis}: <output>{at}</output> (0 to {shape[axis]! - 1})
          <input type="range" min={0} max={shape[axis]! - 1} value={at} onChange={(event) => put(axis, Number(event.target.value))} />
        </label>
      ))}
      <button type="button" aria-pressed={playing} onClick={() => setPlaying(!playing)}>{playing ? 'Stop' : 'Play'}</button>
    </div>
  );
}

/** Limits of a difference: as far to both sides of zero as the image itself is wide. */
function around(limits: Limits | undefined): Limits {
  const spread = limits ? limits[1] - limits[0] : 1;
  return [-spread, spread];
}

function Limit({ label, value, put }: { label: string; value: number; put: (value: string) => void }): ReactElement {
  return (
    <label>
      {label}{' '}
      <input key={value} size={9} inputMode="decimal" defaultValue={number(value)} onBlur={(event) => {
        const typed = event.target.value.trim();
        if (typed !== number(value) && typed !== '' && Number.isFinite(Number(typed))) put(typed);
      }} onKeyDown={(event) => { if (event.key === 'Enter') event.currentTarget.blur(); }} />
    </label>
  );
}

export function ImageView({ name, facts, arrays, tables, others }: Props): ReactElement {
  const version = facts.version; // and not a newer one, for which the shape may be another
  const place = usePlace();
  const [flipped, setFlipped] = useState(false);
  const [region, setRegion] = useState<Region | null>(null);
  const leading = facts.shape.length - 2;
  const stated = (place.index ?? '').split(',').map(Number);
  const positions = Array.from({ length: leading }, (_, axis) => Math.min(stated[axis] || 0, facts.shape[axis]! - 1));
  const index = positions.join(',');
  const partner = place.blink ? { file: place.file ?? '', name: place.blink } : place.against ? { file: place.against, name } : undefined;
  const other = useAsked<ArrayFacts>(partner ? 'array' : null, { ...partner, index }, version);
  const same = other.fresh && other.found?.plane.join() === facts.plane.join();
  const minus = same && place.minus === '1' ? place.against : undefined;
  const blinks = Boolean(partner && same && !minus);
  useEffect(() => {
    if (!blinks) return;
    const timer = setInterval(() => setFlipped((before) => !before), BLINK);
    return () => clearInterval(timer);
  }, [blinks]);
  const mine = { file: place.file ?? '', name, facts };
  const shown = blinks && flipped ? { ...partner!, facts: other.found! } : mine;
  const rules = shown.facts.limits ?? {};
  const own = shown === mine && place.low !== undefined && place.high !== undefined;
  const [usual = 'zscale'] = Object.keys(rules);
  const limits: Limits = own ? [Number(place.low), Number(place.high)] : minus ? around(rules[usual]) : (rules[usual] ?? [0, 1]);
  const stretch = place.stretch ?? 'linear';
  const colours = place.cmap ?? (minus ? 'red-blue' : 'gray');
  const invert = place.invert === '1';
  const centre = { row: Math.floor(facts.plane[0]! / 2), column: Math.floor(facts.plane[1]! / 2) };
  const statistics = useAsked<Statistics>('statistics', { name, index }, version, PAUSE);
  const compass = useAsked<Compass>(statistics.found ? 'compass' : null, { name, ...centre }, version);
  const marks = useAsked<{ columns: number[]; rows: number[]; number: number[] }>(place.sources ? 'sources' : null, { name, table: place.sources }, version);
  const sources: Source[] = ((marks.fresh && marks.found?.rows) || []).map((row, i) => ({ row, column: marks.found!.columns[i]!, label: `row ${marks.found!.number[i]}` }));
  const partners = arrays.filter((one) => one.path !== name && one.shape.length >= 2 && one.shape.slice(-2).join() === facts.plane.join());
  const rule = Object.keys(rules).find((key) => String(rules[key]) === String(limits)) ?? 'custom';
  const plane: [number, number] = [shown.facts.plane[0]!, shown.facts.plane[1]!];
  return (
    <div className="image-view">
      <div className="bar" role="toolbar" aria-label="Settings of the image">
        <label>Scale{' '}
          <select id="stretch" value={stretch} onChange={(event) => change({ stretch: event.target.value })}>
            {Object.keys(STRETCHES).map((one) => <option key={one}>{one}</option>)}
          </select>
        </label>
        {!minus && <label>Limits{' '}
          <select id="limits" value={rule} onChange={(event) => {
            const chosen = rules[event.target.value];
            change(event.target.value === usual || !chosen ? { low: undefined, high: undefined } : { low: String(chosen[0]), high: String(chosen[1]) });
          }}>
            {[...Object.keys(rules), ...(rule === 'custom' ? ['custom'] : [])].map((one) => <option key={one}>{one}</option>)}
          </select>
        </label>}
        <Limit label="from" value={limits[0]} put={(low) => change({ low, high: String(limits[1]) })} />
        <Limit label="to" value={limits[1]} put={(high) => change({ low: String(limits[0]), high })} />
        <label>Colour map{' '}
          <select id="cmap" value={colours} onChange={(event) => change({ cmap: event.target.value })}>
            {Object.keys(COLOURS).map((one) => <option key={one}>{one}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={invert} onChange={(event) => change({ invert: event.target.checked ? '1' : undefined })} /> invert</label>
        {partners.length > 0 && (
          <label>Blink with{' '}
            <select id="blink" value={place.blink ?? ''} onChange={(event) => change({ blink: event.target.value })}>
              <option value="">nothing</option>
              {partners.map((one) => <option key={one.path}>{one.path}</option>)}
            </select>
          </label>
        )}
        {others.length > 0 && (
          <label>Compare with{' '}
            <select id="against" value={place.against ?? ''} onChange={(event) => change({ against: event.target.value, blink: undefined })}>
              <option value="">no file</option>
              {others.map((one) => <option key={one} value={one} title={one}>{brief(one, others)}</option>)}
            </select>
          </label>
        )}
        {place.against && <label><input id="minus" type="checkbox" checked={place.minus === '1'} onChange={(event) => change({ minus: event.target.checked ? '1' : undefined })} /> difference</label>}
        {tables.length > 0 && compass.found?.north && (
          <label>Overlay{' '}
            <select id="sources" value={place.sources ?? ''} onChange={(event) => change({ sources: event.target.value })}>
              <option value="">none</option>
              {tables.map((one) => <option key={one}>{one}</option>)}
            </select>
          </label>
        )}
        <Zoom />
        {region && <button type="button" onClick={() => setRegion(null)}>Clear region</button>}
      </div>
      {marks.error && marks.fresh && <p role="alert">{marks.error}</p>}
      {leading > 0 && <Planes shape={facts.shape} index={positions} />}
      {partner && other.fresh && !same && <p role="alert">{other.error ?? 'The other image has another size.'}</p>}
      {blinks && <p className="hint" role="status">{place.blink ? shown.name : brief(shown.file, others)}</p>}
      {facts.greatest && <p className="hint">Zoomed out, a pixel shows the greatest of its flags: none is lost.</p>}
      {minus && <p className="hint" role="status">this file minus {brief(minus, others)}, element by element: nothing is aligned on the sky</p>}
      <ImageCanvas
        image={{ file: shown.file, name: shown.name, index, version: shown.facts.version, minus, minusVersion: other.found?.version }} plane={plane} side={facts.side} limits={limits} stretch={stretch}
        colours={colours} invert={invert} compass={compass.found ?? null} region={region} sources={sources} onRegion={setRegion} greatest={shown.facts.greatest}
      />
      <ColourBar limits={limits} stretch={stretch} colours={colours} invert={invert} unit={shown.facts.unit} gaps={shown.facts.kind === 'f' || shown.facts.kind === 'c' || shown.facts.masked} />
      <Readout file={shown.file} name={shown.name} minus={minus} index={index} facts={shown.facts} version={version} />
      {!minus && (
      <Beside>
        <Levels all={statistics} name={name} index={index} version={version} limits={limits} region={region} unit={facts.unit} colours={colours} invert={invert} />
      </Beside>
      )}
    </div>
  );
}
