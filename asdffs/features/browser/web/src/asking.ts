/** Hooks that ask the daemon. */
import { useEffect, useRef, useState } from 'react';

import { ask, type Query } from './api';

/** `fresh`: it is the answer to this question, and not yet to the one before. */
export interface Asked<T> {
  found?: T;
  error?: string;
  fresh: boolean;
}

/**
 * The answer to a question; asked again when it changes, or when `version` does. The last answer stays until the next
 * is there, so that nothing flickers: a component that must forget it has another `key`. `pause`: milliseconds for which
 * a question, but the first, must stay the same before it is asked.
 */
export function useAsked<T>(what: string | null, query: Query = {}, version = '', pause = 0): Asked<T> {
  const words = JSON.stringify([what, query, version]);
  const [state, setState] = useState<{ words: string; found?: T; error?: string }>({ words: '' });
  const waits = useRef(false);
  useEffect(() => {
    const stop = new AbortController();
    const [asked, sent] = JSON.parse(words) as [string | null, Query];
    if (asked === null) return;
    const timer = setTimeout(
      () => {
        waits.current = true;
        ask<T>(asked, sent, stop.signal).then(
          (found) => setState({ words, found }),
          (error: Error) => {
            if (!stop.signal.aborted) setState({ words, error: error.message });
          },
        );
      },
      waits.current ? pause : 0,
    );
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [words, pause]);
  return what === null ? { fresh: true } : { found: state.found, error: state.error, fresh: state.words === words };
}

/** A function that asks one thing at a time: while an answer is awaited, only the last question waits. */
export function useLatest<A>(run: (asked: A) => Promise<void>): (asked: A) => void {
  const state = useRef<{ busy: boolean; next: A | undefined }>({ busy: false, next: undefined });
  const current = useRef(run);
  useEffect(() => {
    current.current = run;
  });
  const [start] = useState(() => async function begin(asked: A): Promise<void> {
    const now = state.current;
    if (now.busy) {
      now.next = asked;
      return;
    }
    now.busy = true;
    try {
      await current.current(asked);
    } finally {
      now.busy = false;
      const next = now.next;
      now.next = undefined;
      if (next !== undefined) void begin(next);
    }
  });
  return (asked) => void start(asked);
}
