/** What is shown is in the URL, so that a reload, a bookmark and the button Back work. */
import { useSyncExternalStore } from 'react';

export type View = 'files' | 'sight' | 'array' | 'table' | 'text' | 'map';

/** `path`: of the selected value, as in the tree; `name`: of an array or table. Others belong to a view. */
export type Place = Partial<
  Record<
    | 'file' | 'view' | 'path' | 'name' | 'index' | 'line' | 'stretch' | 'low' | 'high' | 'cmap' | 'invert' | 'blink' | 'against' | 'minus' | 'sources'
    | 'sort' | 'down' | 'where' | 'x' | 'y' | 'find' | 'panes' | 'columns',
    string
  >
>;

const listeners = new Set<() => void>();

function read(): string {
  return location.search;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener('popstate', listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('popstate', listener);
  };
}

function parse(search: string): Place {
  return Object.fromEntries(new URLSearchParams(search));
}

function put(place: Place, replace: boolean): void {
  const words = Object.entries(place).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(words).toString();
  const url = search ? `?${search}` : location.pathname;
  if (replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  listeners.forEach((listener) => listener());
}

/** Show something else of the same file; the search stays, and the settings of the view before are left. */
export function go(place: Place): void {
  const { file, panes, find } = parse(read());
  put({ file, panes, find, ...place }, false);
}

/** The file that is shown; empty for the only one. */
export function fileNow(): string {
  return parse(read()).file ?? '';
}

/** Change settings of what is shown; undefined removes one. */
export function change(part: Place): void {
  put({ ...parse(read()), ...part }, true);
}

export function usePlace(): Place {
  return parse(useSyncExternalStore(subscribe, read));
}
