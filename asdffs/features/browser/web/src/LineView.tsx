/** A curve with axes, names and units: an array of one axis, or two columns of a table. */
import {
  CurveType, DataCurve, DefaultInteractions, extendDomain, getAxisDomain, getDomain, ResetZoomButton, ScaleType, TooltipMesh, VisCanvas, type AxisScaleType,
} from '@h5web/lib';
import { useEffect, useMemo, useState, type ReactElement } from 'react';

import { askNumbers, type Numbers, type Query } from './api';
import { useColour } from './colour';
import { tick } from './words';

interface Props {
  what: 'curve' | 'columns';
  query: Query;
  version: string;
  /** Which rows of the answer are drawn. */
  rows: [x: number, y: number];
  across: string;
  up: string;
  points: boolean;
}

/** Right ascension grows to the left, as one sees it on the sky. */
const SKY = /(^|[._])ra([._ (]|$)/i;

/** The points in the order of x, because a curve is followed from left to right; those without an x are left out. */
function inOrder(x: ArrayLike<number>, y: ArrayLike<number>): [Float64Array, Float64Array] {
  const order = Array.from(x, (_, i) => i).filter((i) => Number.isFinite(x[i]!));
  order.sort((a, b) => x[a]! - x[b]!);
  return [Float64Array.from(order, (i) => x[i]!), Float64Array.from(order, (i) => y[i]!)];
}

/** The place in `x`, which ascends, of the number next to `at`. */
function near(x: Float64Array, at: number): number {
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle]! < at) low = middle;
    else high = middle;
  }
  return at - x[low]! < x[high]! - at ? low : high;
}

export function LineView({ what, query, version, rows, across, up, points }: Props): ReactElement {
  const words = JSON.stringify([query, version]);
  const [state, setState] = useState<{ words: string; found?: Numbers; error?: string }>({ words: '' });
  const [scale, setScale] = useState<AxisScaleType>(ScaleType.Linear);
  useEffect(() => {
    const stop = new AbortController();
    askNumbers(what, (JSON.parse(words) as [Query])[0], stop.signal).then(
      (found) => setState({ words, found }),
      (error: Error) => {
        if (!stop.signal.aborted) setState({ words, error: error.message });
      },
    );
    return () => stop.abort();
  }, [what, words]);
  const colour = useColour('--mark');
  const [first, second] = rows;
  const curve = useMemo(() => {
    if (!state.found) return undefined;
    const count = state.found.shape[1]!;
    const row = (number: number): Float32Array | Float64Array => state.found!.values.subarray(number * count, (number + 1) * count);
    return inOrder(row(first), row(second));
  }, [state.found, first, second]);
  if (state.words === words && state.error) return <p role="alert">{state.error}</p>;
  if (!curve || state.words !== words) return <p className="hint">reading…</p>;
  const [x, y] = curve;
  if (!x.length) return <p>There is no element to draw.</p>;
  return (
    <div className="line-view">
      <div className="bar">
        <label>
          Vertical axis{' '}
          <select value={scale} onChange={(event) => setScale(event.target.value as AxisScaleType)}>
            <option value={ScaleType.Linear}>linear</option>
            <option value={ScaleType.Log}>log</option>
            <option value={ScaleType.SymLog}>symmetric log</option>
          </select>
        </label>
      </div>
      <div className="canvas">
        <VisCanvas
          abscissaConfig={{ visDomain: getAxisDomain(x, { extensionFactor: 0.02, forceAscending: true })!, showGrid: true, label: across, formatTick: tick, flip: SKY.test(across) }}
          ordinateConfig={{ visDomain: extendDomain(getDomain(y, { scaleType: scale }) ?? (scale === ScaleType.Log ? [0.1, 1] : [0, 1]), 0.05, scale), showGrid: true, scaleType: scale, label: up, formatTick: tick }}
        >
          <DefaultInteractions />
          <ResetZoomButton />
          <DataCurve abscissas={x} ordinates={y} color={colour} curveType={points ? CurveType.GlyphsOnly : CurveType.LineOnly} glyphSize={5} />
          <TooltipMesh
            guides="vertical"
            renderTooltip={(at) => {
              const nearest = near(x, at);
              return <>{`${across}: ${tick(x[nearest]!)}`}<br /><strong>{`${up}: ${tick(y[nearest]!)}`}</strong></>;
            }}
          />
        </VisCanvas>
      </div>
    </div>
  );
}
