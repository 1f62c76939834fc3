/** The tree: a list of what is open, drawn as far as it is seen; a search; the keys of a tree. */
import { useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { FiActivity, FiChevronDown, FiChevronRight, FiFolder, FiGrid, FiHash, FiList, FiType } from 'react-icons/fi';
import { List, useListRef, type RowComponentProps } from 'react-window';

import { ask, type Children, type Entry, type Refusal } from './api';
import { useAsked } from './asking';
import { change, go, usePlace } from './place';

const HEIGHT = 24;
/** A search begins so many milliseconds after the last key. */
const PAUSE = 250;
/** Keys of the root that are not what a file is about. */
const ASIDE = new Set(['history', 'asdf_library']);

type Line = { level: number; entry: Entry; more?: undefined } | { level: number; entry?: undefined; more: string; path: string; start: number };

/** What tells a line from others, also when lines before it come and go. */
function keyOf(line: Line | undefined): string {
  return line?.entry ? line.entry.path : `more of ${line?.path}`;
}

interface RowProps {
  lines: Line[];
  active: number;
  opened: Set<string>;
  choose: (at: number) => void;
  toggle: (at: number) => void;
}

function Icon({ entry }: { entry: Entry }): ReactElement {
  const image = /\[\d+(, \d+)+\]/.test(entry.text);
  const Found = entry.kind === 'table' ? FiList : entry.kind === 'array' ? (image ? FiGrid : FiActivity) : entry.kind === 'mapping' ? FiFolder : entry.kind === 'sequence' ? FiHash : FiType;
  return <Found className={`icon ${entry.kind}`} aria-label={entry.kind} />;
}

function Row({ index, style, lines, active, opened, choose, toggle }: RowComponentProps<RowProps>): ReactElement {
  const { level, entry, more } = lines[index]!;
  const open = entry && opened.has(entry.path);
  return (
    <div id={`line-${index}`} role="treeitem" aria-level={level + 1} aria-selected={index === active} aria-expanded={entry?.open ? open : undefined}
      aria-label={entry ? `${entry.key}: ${entry.text}` : more} className="tree-line" data-path={entry?.path} style={{ ...style, paddingLeft: `${level * 0.9 + 0.2}rem` }} onClick={() => choose(index)}>
      <span className="twist" onClick={(event) => { if (!entry?.open) return; event.stopPropagation(); toggle(index); }}>
        {entry?.open && (open ? <FiChevronDown aria-hidden /> : <FiChevronRight aria-hidden />)}
      </span>
      {entry ? (
        <>
          <Icon entry={entry} />
          <span className="key">{entry.key}</span>
          <span className="value" title={entry.text}>{entry.text}</span>
          {entry.unit && <span className="unit">{entry.unit}</span>}
          {entry.tag && entry.array === null && <span className="tag">{entry.tag}</span>}
        </>
      ) : <span className="more">{more} more…</span>}
    </div>
  );
}

export function select(entry: Entry): void {
  const path = entry.path;
  if (entry.kind === 'table') go({ view: 'table', path, name: entry.array ?? path });
  else if (entry.array !== null) go({ view: 'array', path, name: entry.array });
  else go({ view: 'text', path, line: String(entry.line) });
}

/** The children that were read, and which values are open. */
function useChildren(version: string): { known: Map<string, Children>; opened: Set<string>; open: (path: string, shut?: boolean) => void; more: (path: string, start: number) => void; error: string } {
  const [known, setKnown] = useState(new Map<string, Children>());
  const [opened, setOpened] = useState(new Set<string>());
  const [error, setError] = useState('');
  const read = useCallback(async (path: string, start = 0): Promise<Children | undefined> => {
    try {
      const found = await ask<Children>('tree', { path, start });
      setKnown((before) => {
        const old = start ? (before.get(path)?.children.slice(0, start) ?? []) : [];
        return new Map(before).set(path, { ...found, children: [...old, ...found.children] });
      });
      setError('');
      return found;
    } catch (refusal) {
      if ((refusal as Refusal).status === 404) setOpened((before) => new Set([...before].filter((one) => one !== path))); // it is gone
      else setError((refusal as Error).message);
      return undefined;
    }
  }, []);
  const openedNow = useRef(opened);
  useEffect(() => {
    openedNow.current = opened;
  }, [opened]);
  useEffect(() => {
    void (async () => {
      const again = openedNow.current;
      const root = await read('.');
      if (again.size === 0 && root) {
        const first = root.children.filter((one) => one.open && !ASIDE.has(one.key) && one.kind !== 'table');
        const paths = first.length <= 3 ? first.map((one) => one.path) : first.filter((one) => one.key === 'roman').map((one) => one.path);
        setOpened(new Set(paths));
        await Promise.all(paths.map((path) => read(path)));
      } else await Promise.all([...again].map((path) => read(path)));
    })();
  }, [version, read]);
  const open = useCallback((path: string, shut = false): void => {
    setOpened((before) => {
      const after = new Set(before);
      if (shut) after.delete(path);
      else after.add(path);
      return after;
    });
    if (!shut) void read(path);
  }, [read]);
  return { known, opened, open, more: (path, start) => void read(path, start), error };
}

function linesOf(known: Map<string, Children>, opened: Set<string>, path = '.', level = 0): Line[] {
  const found = known.get(path);
  if (!found) return [];
  const lines = found.children.flatMap((entry): Line[] => [{ level, entry }, ...(opened.has(entry.path) ? linesOf(known, opened, entry.path, level + 1) : [])]);
  const left = found.total - found.children.length;
  return left > 0 ? [...lines, { level, more: left.toLocaleString(), path, start: found.children.length }] : lines;
}

export function Tree({ version }: { version: string }): ReactElement {
  const place = usePlace();
  const list = useListRef(null);
  const { known, opened, open, more, error } = useChildren(version);
  const [cursor, setCursor] = useState('');
  const typing = useRef<ReturnType<typeof setTimeout>>();
  const wanted = place.find?.trim() ?? '';
  const hits = useAsked<{ matches: Entry[]; more: boolean }>(wanted.length > 0 ? 'search' : null, { text: wanted }, version);
  const lines = useMemo((): Line[] => {
    if (wanted) return (hits.found?.matches ?? []).map((entry) => ({ level: 0, entry: { ...entry, key: entry.path, open: false } }));
    return linesOf(known, opened);
  }, [known, opened, wanted, hits.found]);

  const active = Math.max(0, lines.findIndex((line) => keyOf(line) === cursor));
  // what is selected elsewhere is selected here, once it is there
  const selected = place.path ?? place.name;
  const [followed, setFollowed] = useState<string>();
  if (selected !== followed) {
    const found = lines.find(({ entry }) => entry && (entry.path === selected || entry.array === selected));
    if (found) {
      setFollowed(selected);
      setCursor(keyOf(found));
    }
  }

  const toggle = (at: number): void => {
    const entry = lines[at]?.entry;
    if (entry?.open) open(entry.path, opened.has(entry.path));
  };
  const choose = (at: number): void => {
    const line = lines[at];
    if (!line) return;
    setCursor(keyOf(line));
    if (!line.entry) more(line.path, line.start);
    else if (line.entry.open && line.entry.array === null && line.entry.kind !== 'table') toggle(at);
    else select(line.entry);
  };
  const move = (at: number): void => {
    const next = Math.max(0, Math.min(lines.length - 1, at));
    setCursor(keyOf(lines[next]));
    list.current?.scrollToRow({ index: next, align: 'smart' });
  };
  const press = (event: KeyboardEvent): void => {
    const entry = lines[active]?.entry;
    const level = lines[active]?.level ?? 0;
    const isOpen = entry !== undefined && opened.has(entry.path);
    const moves: Record<string, () => void> = {
      ArrowDown: () => move(active + 1),
      ArrowUp: () => move(active - 1),
      Home: () => move(0),
      End: () => move(lines.length - 1),
      PageDown: () => move(active + 15),
      PageUp: () => move(active - 15),
      ArrowRight: () => (entry?.open && !isOpen ? toggle(active) : move(active + 1)),
      ArrowLeft: () => (isOpen ? toggle(active) : move(lines.findLastIndex((line, at) => at < active && line.level < level))),
      Enter: () => choose(active),
      ' ': () => choose(active),
    };
    const run = moves[event.key];
    if (!run) return;
    run();
    event.preventDefault();
  };
  return (
    <div className="tree">
      <input id="search" type="search" aria-label="Search keys and values" placeholder="Search keys and values" autoComplete="off" defaultValue={place.find ?? ''}
        onChange={(event) => {
          clearTimeout(typing.current);
          const find = event.target.value;
          typing.current = setTimeout(() => change({ find }), PAUSE);
        }} />
      <p id="found" role="status">{error || hits.error || (wanted && hits.found ? `${hits.found.matches.length}${hits.found.more ? ' and more' : ''} found` : wanted ? 'searching…' : '')}</p>
      <List className="tree-list" role="tree" aria-label="Tree of the file" tabIndex={0} aria-activedescendant={lines.length ? `line-${active}` : undefined}
        listRef={list} onKeyDown={press} rowComponent={Row} rowCount={lines.length} rowHeight={HEIGHT} rowProps={{ lines, active, opened, choose, toggle }} />
    </div>
  );
}
