// A long table of which only the visible rows exist: a thousand brokers, ten thousand moves.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

/** Rows outside the screen that exist, so that a quick scroll shows no gap. */
const SPARE = 12;

export interface Range {
  from: number;
  to: number;
}

/** The rows that are visible. Pure, so that it can be tested without a browser. */
export function visible(count: number, rowHeight: number, above: number, screen: number): Range {
  const first = Math.floor(Math.max(0, above) / rowHeight) - SPARE;
  const last = Math.ceil((Math.max(0, above) + screen) / rowHeight) + SPARE;
  return { from: Math.max(0, Math.min(first, count)), to: Math.max(0, Math.min(last, count)) };
}

interface RowsProps {
  count: number;
  rowHeight: number;
  /** How many columns the table has. */
  columns: number;
  row: (index: number) => ComponentChildren;
}

/** The body of a table. Rows have one height; those that are not visible are one empty row above and one below. */
export function Rows({ count, rowHeight, columns, row }: RowsProps) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [range, setRange] = useState<Range>({ from: 0, to: Math.min(count, 60) });
  useLayoutEffect(() => {
    const update = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const next = visible(count, rowHeight, -top, innerHeight);
      setRange((before) => (before.from === next.from && before.to === next.to ? before : next));
    };
    update();
    addEventListener('scroll', update, { passive: true });
    addEventListener('resize', update);
    return () => {
      removeEventListener('scroll', update);
      removeEventListener('resize', update);
    };
  }, [count, rowHeight]);
  const shown = Array.from({ length: Math.max(0, range.to - range.from) }, (_, index) => range.from + index);
  return (
    <tbody ref={body} class="virtual">
      <Gap height={range.from * rowHeight} columns={columns} />
      {shown.map((index) => row(index))}
      <Gap height={(count - range.to) * rowHeight} columns={columns} />
    </tbody>
  );
}

function Gap({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null;
  return (
    <tr class="gap">
      <td colSpan={columns} style={{ height: `${height}px` }} />
    </tr>
  );
}
