/** A place beside the view, among the facts, where the view shows what belongs to it. */
import { createContext, useContext, type ReactElement, type ReactNode } from 'react';
import { createPortal } from 'react-dom';

export const BesideContext = createContext<HTMLElement | null>(null);

export function Beside({ children }: { children: ReactNode }): ReactElement | null {
  const place = useContext(BesideContext);
  return place && createPortal(children, place);
}
