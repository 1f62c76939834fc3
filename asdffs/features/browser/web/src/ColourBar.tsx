/** The colour bar with its numbers, by the stretch. */
import { getLinearGradient, INTERPOLATORS } from '@h5web/lib';
import type { ReactElement } from 'react';

import type { Limits } from './api';
import { coloursOf, valueAt } from './stretches';
import { number } from './words';

interface Props {
  limits: Limits;
  stretch: string;
  colours: string;
  invert: boolean;
  unit: string;
  /** Whether elements may be NaN or masked. */
  gaps: boolean;
}

const TICKS = [0, 0.25, 0.5, 0.75, 1];

export function ColourBar({ limits, stretch, colours, invert, unit, gaps }: Props): ReactElement {
  const { map, turned, nan } = coloursOf(colours);
  const interpolate = INTERPOLATORS[map];
  const backwards = invert !== turned;
  const gradient = getLinearGradient((part) => interpolate(backwards ? 1 - part : part), 'right');
  return (
    <div className="colour-bar" role="img" aria-label={`Colours from ${number(limits[0])} to ${number(limits[1])} ${unit}`}>
      {gaps && <span title="NaN and masked elements"><i className="swatch" style={{ background: nan }} /> NaN</span>}
      <div className="bar-and-ticks">
        <div className="gradient" style={{ backgroundImage: gradient }} />
        <div className="ticks">
          {TICKS.map((part) => (
            <span key={part} style={{ left: `${100 * part}%` }}>
              {number(valueAt(part, limits, stretch), 4)}
            </span>
          ))}
        </div>
      </div>
      <span className="unit">{unit}</span>
    </div>
  );
}
