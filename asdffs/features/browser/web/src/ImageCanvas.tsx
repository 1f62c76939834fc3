/** An image on h5web's canvas: tiles, moving and zooming, the element below the pointer, a region, marks. */
import {
  Box, DataToHtml, DefaultInteractions, ScaleType, SelectionTool, SvgElement, SvgRect, TiledHeatmapMesh, useVisCanvasContext,
  VisCanvas,
} from '@h5web/lib';
import { useFrame, useThree } from '@react-three/fiber';
import { useCallback, useEffect, useMemo, useRef, type ReactElement } from 'react';
import { Vector3 } from 'three';

import type { Compass, Limits } from './api';
import { point, tellZoom, useZoom } from './pointer';
import { coloursOf } from './stretches';
import { Tiles, type Image } from './tiles';
import { tick } from './words';

export interface Region {
  row: number;
  column: number;
  rows: number;
  columns: number;
}

export interface Source {
  row: number;
  column: number;
  label: string;
}

interface Props {
  image: Image;
  plane: [number, number];
  side: number;
  limits: Limits;
  stretch: string;
  colours: string;
  invert: boolean;
  compass: Compass | null;
  region: Region | null;
  sources: Source[];
  onRegion: (region: Region | null) => void;
  /** Whether no pixel of a tile may be left out, so that tiles are not finer than the screen. */
  greatest: boolean;
}

/** Follows the pointer, and answers the keys that move and zoom. */
function Controls({ plane: [rows, columns] }: { plane: [number, number] }): null {
  const { canvasArea, htmlToData, getFovBox, visSize } = useVisCanvasContext();
  const { camera, gl, invalidate } = useThree();
  const pointer = useRef<{ clientX: number; clientY: number } | null>(null);
  const look = useCallback((): void => {
    if (!pointer.current) return;
    // by the canvas itself: its area has the new size a moment before the picture has
    const box = gl.domElement.getBoundingClientRect();
    const at = htmlToData(camera, new Vector3(pointer.current.clientX - box.left, pointer.current.clientY - box.top));
    const [row, column] = [Math.floor(at.y), Math.floor(at.x)];
    point(row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null);
  }, [camera, gl, htmlToData, rows, columns]);
  useFrame(() => {
    look(); // another element comes below the pointer when the image moves, or its window changes
    tellZoom(visSize.width / columns / camera.scale.x);
  });
  useEffect(() => {
    const canvas = gl.domElement;
    const move = (event: PointerEvent): void => {
      pointer.current = event;
      look();
    };
    const leave = (): void => {
      pointer.current = null;
    };
    const show = (x: number, y: number, scale: number): void => {
      camera.scale.set(Math.min(1, scale), Math.min(1, scale), 1);
      camera.updateMatrixWorld();
      const seen = getFovBox(camera, new Vector3(x, y, 0)).keepWithin(Box.fromSize(visSize));
      camera.position.set(seen.center.x, seen.center.y, camera.position.z);
      camera.updateMatrixWorld();
      invalidate();
    };
    const press = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [{ x, y }, scale] = [camera.position, camera.scale.x];
      const step = scale * Math.min(canvas.clientWidth, canvas.clientHeight) * 0.1;
      const moves: Record<string, () => void> = {
        ArrowLeft: () => show(x - step, y, scale),
        ArrowRight: () => show(x + step, y, scale),
        ArrowUp: () => show(x, y + step, scale),
        ArrowDown: () => show(x, y - step, scale),
        '+': () => show(x, y, scale / 1.5),
        '=': () => show(x, y, scale / 1.5),
        '-': () => show(x, y, scale * 1.5),
        '0': () => show(0, 0, 1),
        '1': () => show(x, y, visSize.width / columns),
      };
      const run = moves[event.key];
      if (!run) return;
      run();
      event.preventDefault();
    };
    canvasArea.tabIndex = 0;
    canvasArea.setAttribute('role', 'img');
    canvasArea.setAttribute('aria-label', 'Image. Arrow keys move it, plus and minus zoom, 0 shows the whole, 1 an element in a pixel.');
    canvasArea.addEventListener('pointermove', move);
    canvasArea.addEventListener('pointerleave', leave);
    canvasArea.addEventListener('keydown', press);
    return () => {
      canvasArea.removeEventListener('pointermove', move);
      canvasArea.removeEventListener('pointerleave', leave);
      canvasArea.removeEventListener('keydown', press);
    };
  }, [canvasArea, camera, gl, look, getFovBox, visSize, columns, invalidate]);
  return null;
}

const ZOOMS: [key: string, text: string, label: string][] = [['-', '−', 'Smaller'], ['+', '+', 'Larger'], ['0', 'fit', 'The whole image'], ['1', '1:1', 'An element in a pixel']];

/** Buttons for the keys that zoom, and how large the image is. */
export function Zoom(): ReactElement {
  const zoom = useZoom();
  const press = (key: string): void => void document.querySelector('.canvas [role=img]')?.dispatchEvent(new KeyboardEvent('keydown', { key }));
  return (
    <div className="zoom" role="group" aria-label="Zoom">
      <output>{Number((100 * zoom).toPrecision(2))} %</output>
      {ZOOMS.map(([key, text, label]) => <button key={key} type="button" title={`${label} (${key})`} onClick={() => press(key)}>{text}</button>)}
    </div>
  );
}

function toRegion([first, last]: [Vector3, Vector3], [rows, columns]: [number, number]): Region | null {
  const span = (a: number, b: number, most: number): [number, number] => {
    const low = Math.max(0, Math.floor(Math.min(a, b)));
    return [low, Math.min(most, Math.ceil(Math.max(a, b))) - low];
  };
  const [row, height] = span(first.y, last.y, rows);
  const [column, width] = span(first.x, last.x, columns);
  return height > 0 && width > 0 ? { row, column, rows: height, columns: width } : null;
}

const SELECTED = { fill: 'rgba(90, 160, 255, 0.15)', stroke: '#5aa0ff', strokeWidth: 2 };

/** What is drawn over the image, in its coordinates: the region, and the sources of a table. */
function Marks({ region, sources }: { region: Region | null; sources: Source[] }): ReactElement {
  const places = sources.map(({ row, column }) => new Vector3(column + 0.5, row + 0.5));
  return (
    <>
      {region && (
        <DataToHtml points={[new Vector3(region.column, region.row), new Vector3(region.column + region.columns, region.row + region.rows)]}>
          {(first, last) => (
            <SvgElement>
              <SvgRect coords={[first, last]} {...SELECTED} />
            </SvgElement>
          )}
        </DataToHtml>
      )}
      {places.length > 0 && (
        <DataToHtml points={places}>
          {(...points) => (
            <SvgElement>
              {points.map(({ x, y }, number) => (
                <circle key={sources[number]!.label} className="source" cx={x} cy={y} r={7}>
                  <title>{sources[number]!.label}</title>
                </circle>
              ))}
            </SvgElement>
          )}
        </DataToHtml>
      )}
    </>
  );
}

/** North and east, in the corner. Rows grow upwards, so up on the screen is plus. */
function CompassRose({ compass }: { compass: Compass }): ReactElement {
  const arrow = (name: string, [x, y]: [number, number]): ReactElement => (
    <g key={name}>
      <line x1={32} y1={32} x2={32 + 20 * x} y2={32 - 20 * y} markerEnd="url(#tip)" />
      <text x={32 + 27 * x} y={32 - 27 * y} dominantBaseline="central" textAnchor="middle">
        {name}
      </text>
    </g>
  );
  const told = `North and east; ${compass.scale.toPrecision(3)} arcsec per pixel`;
  return (
    <svg className="compass" viewBox="0 0 64 64" role="img" aria-label={told}>
      <defs>
        <marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto-start-reverse">
          <path d="M0 0 L6 3 L0 6 z" />
        </marker>
      </defs>
      {compass.north && arrow('N', compass.north)}
      {arrow('E', compass.east)}
    </svg>
  );
}

export function ImageCanvas(props: Props): ReactElement {
  const { image, plane, side, limits, stretch, colours, invert, compass, region, sources, onRegion, greatest } = props;
  const { file, name, index, version, minus, minusVersion } = image;
  const [rows, columns] = plane;
  const [low, high] = limits;
  const tiles = useMemo(
    () => new Tiles({ file, name, index, version, minus, minusVersion }, [rows, columns], side, [low, high], stretch, greatest),
    [file, name, index, version, minus, minusVersion, rows, columns, side, low, high, stretch, greatest],
  );
  const { map, turned, nan } = coloursOf(colours);
  return (
    <div className="canvas">
      <VisCanvas
        aspect="equal"
        abscissaConfig={{ visDomain: [0, columns], isIndexAxis: true, label: 'column', formatTick: tick }}
        ordinateConfig={{ visDomain: [0, rows], isIndexAxis: true, label: 'row', formatTick: tick }}
      >
        <DefaultInteractions xAxisZoom={false} yAxisZoom={false} xSelectToZoom={false} ySelectToZoom={false} />
        <Controls plane={plane} />
        <TiledHeatmapMesh
          api={tiles}
          qualityFactor={greatest ? 0 : 1}
          domain={[0, 1]}
          scaleType={ScaleType.Linear}
          colorMap={map}
          invertColorMap={invert !== turned}
          {...({ badColor: nan } as object)}
        />
        <SelectionTool modifierKey="Shift" onValidSelection={({ data }) => onRegion(toRegion(data, plane))}>
          {({ html }) => (
            <SvgElement>
              <SvgRect coords={html} {...SELECTED} />
            </SvgElement>
          )}
        </SelectionTool>
        <Marks region={region} sources={sources} />
      </VisCanvas>
      {compass?.north && <CompassRose compass={compass} />}
    </div>
  );
}
