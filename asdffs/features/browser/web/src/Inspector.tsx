/** Facts about what is selected, and what can be done with it. */
import { useState, type ReactElement } from 'react';

import { urlOf, type ArrayFacts, type Facts } from './api';
import { useAsked } from './asking';
import { usePlace } from './place';
import { base, bytes, python, shape } from './words';

function Copy({ what, text }: { what: string; text: string }): ReactElement {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      prompt(`The browser lets no page copy here: copy it by hand.`, text); // over http, but for this machine
      return;
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" onClick={() => void copy()}>
      {done ? 'copied' : `Copy ${what}`}
    </button>
  );
}

/** Save what the canvas shows. */
function savePicture(name: string): void {
  document.querySelector<HTMLCanvasElement>('.canvas canvas')?.toBlob((blob) => {
    if (!blob) return;
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = `${name.replaceAll('/', '_')}.png`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

export function Inspector({ facts, version, setBeside }: { facts: Facts; version: string; setBeside: (place: HTMLElement | null) => void }): ReactElement {
  const place = usePlace();
  const name = place.view === 'array' ? place.name : undefined;
  const { found } = useAsked<ArrayFacts>(name ? 'array' : null, { name, index: place.index }, version);
  const path = place.path ?? place.name;
  const rows: [string, string | undefined][] = [
    ['path', path],
    ['shape', found && shape(found.shape)],
    ['type', found?.dtype],
    ['unit', found && (found.unit || (found.kind === 'f' ? 'none in the file' : ''))],
    ['size', found && bytes(found.bytes)],
    ['block', found?.block === null ? 'in the tree' : found?.block.toString()],
    ['compression', found?.compression],
    ['masked', found?.masked ? 'some elements may be' : undefined],
    ['axis', found?.axis ? found.axis.name : undefined],
  ];
  return (
    <div className="inspector">
      <h2>{path ?? base(facts.name)}</h2>
      <dl>
        {rows.filter(([, text]) => text).map(([label, text]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {path && <Copy what="path" text={path} />}
      {name && <Copy what="Python" text={python(facts.name, name)} />}
      {name && found?.formats.map((what) => (
        <a key={what} className="button" href={urlOf('download', { what, name })} download>Download .{what}</a>
      ))}
      {found && !found.values && <button type="button" onClick={() => savePicture(name!)}>Save picture (PNG)</button>}
      <div ref={setBeside} className="beside" />
      {found && Object.keys(found.flags).length > 0 && (
        <details open>
          <summary>{Object.keys(found.flags).length} flags</summary>
          <ul className="flag-names">{Object.entries(found.flags).map(([bit, word]) => <li key={bit}>{bit}: {word}</li>)}</ul>
        </details>
      )}
    </div>
  );
}
