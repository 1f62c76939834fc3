/** Parts of the screen that move from one layout to another as they are, with what was typed into them. */
import { useLayoutEffect, useRef, useState, type ReactElement } from 'react';

/** An element for `createPortal`, which a `Slot` shows. */
export function useHolder(): HTMLElement {
  const [holder] = useState(() => {
    const made = document.createElement('div');
    made.className = 'kept';
    return made;
  });
  return holder;
}

/** The place where what is in `holder` is shown now. */
export function Slot({ holder }: { holder: HTMLElement }): ReactElement {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    place.current!.append(holder);
  }, [holder]);
  return <div ref={place} className="kept" />;
}
