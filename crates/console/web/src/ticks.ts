// Which lines of a plan are done. Pure, so that it can be tested without a browser.

import type { Line, PlanStep } from './model.ts';

export type Mark = 'done' | 'left' | 'refused';

const REFUSALS = new Set(['refused', 'invalid', 'blocked']);

/**
 * The lines of a plan that was applied, with what is left to do by the last observation. A line is left as long as a line
 * of the same kind that concerns one of its nodes is; one without nodes, as long as its sentence is.
 */
export function marks(steps: PlanStep[], left: Line[]): Mark[] {
  return steps.map((step) => {
    if (REFUSALS.has(step.kind)) return 'refused';
    const open = left.some((line) => {
      if (line.kind !== step.kind) return false;
      if (step.nodes.length === 0) return line.text === step.text;
      return line.nodes.some((node) => step.nodes.includes(node));
    });
    return open ? 'left' : 'done';
  });
}
