/** One screen: the tree, what is selected, facts about it. */
import { useEffect, useRef, useState, useSyncExternalStore, type ReactElement } from 'react';
import { createPortal } from 'react-dom';
import { ErrorBoundary } from 'react-error-boundary';
import { Group, Panel, Separator } from 'react-resizable-panels';

import { type Facts, type Files, type Shelf, type Sight } from './api';
import { useAsked } from './asking';
import { BesideContext } from './Beside';
import { FileMap } from './FileMap';
import { FilesView } from './FilesView';
import { Inspector } from './Inspector';
import { Slot, useHolder } from './Moved';
import { change, go, usePlace, type View } from './place';
import { TableView } from './TableView';
import { TextView } from './TextView';
import { ArrayView, FirstSight } from './Thing';
import { forgetErrors } from './tiles';
import { Tree } from './Tree';
import { base, bytes } from './words';

const NARROW = matchMedia('(max-width: 760px)');
const VIEWS: [View, string][] = [['sight', 'Overview'], ['text', 'Text'], ['map', 'File']];
/** How often a change by another program is looked for, in milliseconds. */
const LOOK = 5000;

function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      NARROW.addEventListener('change', listener);
      return () => NARROW.removeEventListener('change', listener);
    },
    () => NARROW.matches,
  );
}

function Middle({ facts, sight, others, refresh }: { facts: Facts; sight: Sight | undefined; others: string[]; refresh: () => void }): ReactElement {
  const place = usePlace();
  const changed = useRef(false);
  const version = facts.version;
  const view = place.view ?? 'sight';
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent): void => { if (changed.current) event.preventDefault(); };
    window.addEventListener('beforeunload', ask);
    return () => window.removeEventListener('beforeunload', ask);
  }, []);
  return (
    <>
      {/* the editor stays, with what was typed, while others are looked at */}
      <Kept shown={view === 'text'}>
        <TextView writable={facts.writable} version={version} onSaved={refresh} onChanged={(now) => { changed.current = now; }} />
      </Kept>
      {/* what fails here takes nothing that was typed with it */}
      <ErrorBoundary FallbackComponent={Trouble} onReset={forgetErrors} resetKeys={[view, place.name, place.index, version]}>
      {view === 'map' && <FileMap version={version} />}
      {view === 'array' && place.name && <ArrayView key={place.name} name={place.name} version={version} sight={sight} others={others} />}
      {view === 'table' && place.name && <TableView key={place.name} path={place.name} version={version} />}
      {view === 'sight' && (sight ? <FirstSight facts={facts} sight={sight} version={version} others={others} /> : <p className="hint">reading the tree…</p>)}
      </ErrorBoundary>
    </>
  );
}

function Kept({ shown, children }: { shown: boolean; children: ReactElement }): ReactElement | null {
  const [was, setWas] = useState(false);
  if (shown && !was) setWas(true);
  return was || shown ? <div hidden={!shown} className="kept">{children}</div> : null;
}

function Trouble({ error, resetErrorBoundary }: { error: unknown; resetErrorBoundary: () => void }): ReactElement {
  return (
    <div role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      <button type="button" onClick={resetErrorBoundary}>Try again</button>
    </div>
  );
}

/** The page: a list of files if there are several, and the one that was chosen. */
export function App(): ReactElement {
  const place = usePlace();
  const shelf = useAsked<Shelf>('shelf');
  if (!shelf.found) return <main><p role="status">{shelf.error ?? 'reading…'}</p></main>;
  const { files, folders } = shelf.found;
  const several = files.length > 1 || folders.length > 0;
  if (several && (!place.file || place.view === 'files')) return <FileList title={[...folders, ...files].map(base).join(', ')} />;
  return <OneFile key={place.file} several={several} files={files} />;
}

function FileList({ title }: { title: string }): ReactElement {
  useEffect(() => {
    document.title = `${title} – asdffs`;
    document.body.dataset.ready = 'true';
  }, [title]);
  return (
    <div className="page">
      <header><h1 className="name">{title}</h1></header>
      <main id="middle" data-view="files"><FilesView /></main>
    </div>
  );
}

function OneFile({ several, files }: { several: boolean; files: string[] }): ReactElement {
  const place = usePlace();
  const narrow = useNarrow();
  const [left, centre, right] = [useHolder(), useHolder(), useHolder()];
  const [beside, setBeside] = useState<HTMLElement | null>(null);
  const [looked, setLooked] = useState(0);
  const [facts, setFacts] = useState<Facts>();
  const asked = useAsked<Facts>('facts', {}, String(looked));
  const sight = useAsked<Sight>(facts ? 'sight' : null, {}, facts?.version);
  const [pane, setPane] = useState<'tree' | 'middle' | 'facts'>('middle');
  const listed = useAsked<Files>(several && files.length === 0 ? 'files' : null);
  const others = (files.length > 0 ? files : (listed.found?.files.map((one) => one.name) ?? [])).filter((one) => one !== (place.file ?? files[0]));
  const refresh = (): void => setLooked((before) => before + 1);
  if (asked.found && asked.found !== facts) setFacts(asked.found);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) refresh(); }, LOOK);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    if (facts) document.title = `${base(facts.name)} – asdffs`;
    if (facts && (sight.found || sight.error)) document.body.dataset.ready = 'true';
  }, [facts, sight.found, sight.error]);
  const selected = `${place.view} ${place.name} ${place.line}`;
  const [before, setBefore] = useState(selected);
  if (selected !== before) {
    setBefore(selected);
    setPane('middle');
  }
  if (!facts) return <main><p role="status">{asked.error ?? 'reading…'}</p></main>;
  const shows = place.view ?? 'sight';
  const sizes = /^\d+,\d+,\d+$/.test(place.panes ?? '') ? place.panes!.split(',') : ['24', '56', '20'];
  const middle = (
    <section id="middle" tabIndex={-1} aria-label="What is selected" data-view={shows}>
      {(shows === 'array' || shows === 'table') && <h2 className="thing">{place.name}</h2>}
      <BesideContext.Provider value={beside}>
        {shows === 'sight' && sight.error && sight.fresh && <p role="alert">{sight.error} <button type="button" onClick={() => go({ view: 'text' })}>Show the text</button></p>}
        <Middle facts={facts} sight={sight.found} others={others} refresh={refresh} />
      </BesideContext.Provider>
    </section>
  );
  const tree = <nav className="pane" aria-label="Tree"><Tree version={facts.version} /></nav>;
  const inspector = <section className="pane facts" aria-label="Facts"><Inspector key={place.name} facts={facts} version={facts.version} setBeside={setBeside} /></section>;
  return (
    <div className="page">
      {createPortal(tree, left)}
      {createPortal(middle, centre)}
      {createPortal(inspector, right)}
      <a className="skip" href="#middle">Skip to content</a>
      <header>
        <h1>
          <button type="button" className="name" title={facts.name} onClick={() => go({})}>{base(facts.name)}</button>
        </h1>
        <span id="facts">{bytes(facts.size)}{facts.writable ? '' : ', read-only'}</span>
        {asked.error && <span role="alert">{asked.error}</span>}
        <div className="tabs" role="group" aria-label="Views">
          {several && <button type="button" id="tab-files" onClick={() => go({ file: undefined })}>Files</button>}
          {VIEWS.map(([view, label]) => (
            <button key={view} id={`tab-${view}`} type="button" aria-pressed={shows === view} onClick={() => go(view === 'sight' ? {} : { view })}>{label}</button>
          ))}
        </div>
        {narrow && (
          <div className="tabs parts-of-screen" role="group" aria-label="Parts of the screen">
            {(['tree', 'middle', 'facts'] as const).map((one) => (
              <button key={one} type="button" aria-pressed={pane === one} onClick={() => setPane(one)}>{{ tree: 'Tree', middle: 'Data', facts: 'Info' }[one]}</button>
            ))}
          </div>
        )}
      </header>
      {narrow ? (
        <main className="narrow">
          <div hidden={pane !== 'tree'} className="kept"><Slot holder={left} /></div>
          <div hidden={pane !== 'middle'} className="kept"><Slot holder={centre} /></div>
          <div hidden={pane !== 'facts'} className="kept"><Slot holder={right} /></div>
        </main>
      ) : (
        <Group className="panels" role="main" orientation="horizontal" onLayoutChanged={({ left: first, centre: second, right: third }) => change({ panes: [first, second, third].map((one) => Math.round(one ?? 0)).join(',') })}>
          <Panel id="left" defaultSize={`${sizes[0]}%`} minSize="12%"><Slot holder={left} /></Panel>
          <Separator className="separator" aria-label="Width of the tree" />
          <Panel id="centre" defaultSize={`${sizes[1]}%`} minSize="25%"><Slot holder={centre} /></Panel>
          <Separator className="separator" aria-label="Width of the facts" />
          <Panel id="right" defaultSize={`${sizes[2]}%`} minSize="10%" collapsible><Slot holder={right} /></Panel>
        </Group>
      )}
    </div>
  );
}
