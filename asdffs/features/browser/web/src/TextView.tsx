/** The text of the tree in an editor: saves, refusals with their line, conflicts as a difference, old trees. */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, foldGutter, foldKeymap, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { unifiedMergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { classHighlighter } from '@lezer/highlight';
import { useEffect, useRef, useState, type ReactElement } from 'react';

import { askOldText, askText, Refusal, save, urlOf, type OldText } from './api';
import { useAsked } from './asking';
import { usePlace } from './place';
import { bytes } from './words';

/** Characters of a text that is shown without colours, folds and wrapped lines, which take long to compute. */
const LARGE = 5_000_000;
const KEY = /^[ \t-]*([\w.-]+):/gm;

const difference = new Compartment();
const language = new Compartment();
const writing = new Compartment();
const ending = new Compartment();

/** Complete a key by those that are in the text. */
function keysOf(context: CompletionContext): CompletionResult | null {
  const word = context.matchBefore(/[\w.-]+/);
  if (!word || context.state.doc.length > LARGE) return null;
  const before = context.state.doc.lineAt(word.from).text.slice(0, word.from - context.state.doc.lineAt(word.from).from);
  if (!/^[ \t-]*$/.test(before)) return null;
  const names = new Set([...context.state.doc.toString().matchAll(KEY)].map((match) => match[1]!));
  names.delete(word.text);
  return { from: word.from, options: [...names].map((label) => ({ label, type: 'property', apply: `${label}: ` })), validFor: /^[\w.-]*$/ };
}

/** Why a text cannot be edited here without changing more than was typed; empty if it can. */
function hindrance(text: string): string {
  if (text.includes('\uFFFD')) return 'The text is not UTF-8 in some place: it can only be read here.';
  if (/\r(?!\n)/.test(text) || (text.includes('\r\n') && /(^|[^\r])\n/.test(text))) return 'The lines end in different ways: the text can only be read here.';
  return '';
}

function nonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
}

function extensions(onChange: () => void, onSave: () => void): Extension {
  return [
    EditorView.cspNonce.of(nonce()),
    lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(),
    highlightSelectionMatches(), search({ top: true }), autocompletion({ override: [keysOf], activateOnTyping: true }),
    syntaxHighlighting(classHighlighter),
    language.of([]), difference.of([]), writing.of([]), ending.of([]),
    EditorState.phrases.of({ Accept: 'Keep mine', Reject: 'Take theirs' }),
    EditorView.contentAttributes.of({ 'aria-label': 'The tree as YAML' }),
    EditorView.updateListener.of((update) => { if (update.docChanged) onChange(); }),
    keymap.of([
      { key: 'Mod-s', preventDefault: true, run: () => { onSave(); return true; } },
      ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap,
    ]),
  ];
}

interface Saved {
  text: string;
  version: string;
}

export function TextView({ writable, version, onSaved, onChanged }: {
  writable: boolean; version: string; onSaved: () => void; onChanged: (changed: boolean) => void;
}): ReactElement {
  const place = usePlace();
  const home = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const base = useRef<Saved>({ text: '', version: '' });
  const [said, setSaid] = useState('reading the text…');
  const [changed, setChanged] = useState(false);
  const [comparing, setComparing] = useState(false);
  const [ready, setReady] = useState(0);
  const [hindered, setHindered] = useState('');
  const saving = useRef(false);
  const mayWrite = writable && !hindered;
  const old = useAsked<OldText[]>('history', {}, version);

  const noteChange = (): void => {
    const now = view.current!.state.sliceDoc() !== base.current.text;
    setChanged(now);
    onChanged(now);
  };
  const put = (text: string): void => {
    const editor = view.current!;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  };
  const compareWith = (original: string | null): void => {
    view.current!.dispatch({ effects: difference.reconfigure(original === null ? [] : unifiedMergeView({ original, mergeControls: true, collapseUnchanged: {} })) });
    setComparing(original !== null);
  };
  const markLine = (line: number | null, message: string): void => {
    const editor = view.current!;
    const marked = line && line <= editor.state.doc.lines ? editor.state.doc.line(line) : null;
    editor.dispatch(setDiagnostics(editor.state, marked ? [{ from: marked.from, to: marked.to, severity: 'error', message }] : []));
    if (marked) editor.dispatch({ selection: { anchor: marked.from }, effects: EditorView.scrollIntoView(marked.from, { y: 'center' }) });
  };
  /** Read the text of the file; `force`: also over what was typed. */
  const read = async (force = false): Promise<void> => {
    try {
      const found = await askText();
      if (!force && view.current!.state.sliceDoc() !== base.current.text) return;
      base.current = found;
      setHindered(hindrance(found.text));
      view.current!.dispatch({ effects: ending.reconfigure(found.text.includes('\r\n') ? EditorState.lineSeparator.of('\r\n') : []) });
      const large = base.current.text.length > LARGE;
      view.current!.dispatch({ effects: language.reconfigure(large ? [] : [yaml(), EditorView.lineWrapping]) });
      compareWith(null);
      put(base.current.text);
      setSaid(hindrance(found.text));
      noteChange();
      setReady((before) => before + 1);
    } catch (error) {
      setSaid((error as Error).message);
    }
  };
  const store = async (): Promise<void> => {
    const text = view.current!.state.sliceDoc();
    if (!mayWrite || saving.current || text === base.current.text) return;
    saving.current = true;
    setSaid('saving…');
    try {
      base.current = { text, version: await save(text, base.current.version) };
      markLine(null, '');
      compareWith(null);
      setSaid('saved');
      noteChange();
      onSaved();
    } catch (error) {
      const refusal = error as Refusal;
      markLine(refusal.line, refusal.message);
      setSaid(`Not saved: ${refusal.message}`);
      if (refusal.status === 409) await showConflict(refusal.message);
    } finally {
      saving.current = false;
    }
  };
  /** Another program saved first: show what differs from its text, and save over that text next. */
  const showConflict = async (reason: string): Promise<void> => {
    try {
      base.current = await askText();
    } catch (error) {
      setSaid((error as Error).message);
      return;
    }
    compareWith(base.current.text);
    setSaid(`Not saved: ${reason}. Your text stays here. For each difference keep yours or take theirs, then save.`);
  };
  const restore = async (number: string): Promise<void> => {
    if (!number) return;
    try {
      const text = await askOldText(Number(number));
      compareWith(base.current.text);
      put(text);
      setSaid('This is the old text, beside what the file has now. Save makes it the tree again.');
    } catch (error) {
      setSaid((error as Error).message);
    }
  };

  const current = useRef({ store, noteChange, read });
  useEffect(() => {
    current.current = { store, noteChange, read };
  });
  useEffect(() => {
    const state = EditorState.create({ extensions: extensions(() => current.current.noteChange(), () => void current.current.store()) });
    const editor = new EditorView({ state, parent: home.current! });
    view.current = editor;
    editor.scrollDOM.tabIndex = 0; // so that the keyboard can scroll it, too
    void read();
    return () => {
      editor.destroy();
      onChanged(false);
    };
  }, []); // eslint-disable-line react-hooks/exhaustive-deps
  useEffect(() => {
    // another program's text is shown at once, if nothing was typed over the one before
    const untouched = view.current!.state.sliceDoc() === base.current.text;
    if (base.current.version && base.current.version !== version && untouched) void current.current.read();
  }, [version]);
  useEffect(() => {
    view.current!.dispatch({ effects: writing.reconfigure(mayWrite ? [] : [EditorState.readOnly.of(true)]) });
  }, [mayWrite]);
  useEffect(() => {
    const editor = view.current!;
    const line = Number(place.line);
    if (!ready || !line || line > editor.state.doc.lines) return;
    const at = editor.state.doc.line(line).from;
    editor.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
    editor.focus();
  }, [place.line, ready]);

  return (
    <div className="text-view">
      <div className="bar">
        <button type="button" id="save" disabled={!mayWrite || !changed} onClick={() => void store()}>Save</button>
        <button type="button" id="reload" onClick={() => { if (!changed || confirm('Read the file again, and drop what you typed?')) void read(true); }}>Reload</button>
        {comparing && <button type="button" onClick={() => compareWith(null)}>Hide the difference</button>}
        <a href={urlOf('download', { what: 'tree' })} download>Download</a>
        {old.found && old.found.length > 0 && <label>History{' '}
          <select id="history" value="" onChange={(event) => void restore(event.target.value)}>
            <option value="">restore…</option>
            {old.found.map((one) => <option key={one.number} value={one.number}>{new Date(one.time * 1000).toLocaleString()}, {bytes(one.size)}</option>)}
          </select>
        </label>}
        {!writable && <span className="hint">read-only</span>}
      </div>
      <p id="said" role="status">{said}</p>
      <div id="editor" ref={home} data-ready={ready > 0} />
    </div>
  );
}
