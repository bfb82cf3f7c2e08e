/* The data of a page, as page.rs writes it, and what the scripts add to it. Times are nanoseconds
   since the start of the drawing. */

export interface Series {
  name: string;
  colour: string;
  peak: number | null;
  /** Whether it is hidden until the reader selects it in the legend. */
  off?: boolean;
}

/** One block of unpacked samples: `low` and `high` have one array for each series. */
export interface Columns {
  start: Float64Array;
  end: Float64Array;
  low: Float64Array[];
  high: Float64Array[];
  count: number;
}

/** A packed block: how many entries, the times of the first and the last, and where its bytes are. */
export type Block = [count: number, from: number, to: number, offset: number, size: number] & {
  columns?: Columns | null;
  wait?: Promise<void> | null;
  /** Whether the columns stay in memory. */
  keep?: boolean;
};

/** One level of detail; an entry of it is `bucket` samples. */
export interface Level {
  bucket: number;
  store: number;
  blocks: Block[];
  bytes: () => Uint8Array<ArrayBuffer>;
}

export interface Track {
  id: number;
  label: string;
  rank: number | null;
  /** Samples that are further apart have a pause between them. */
  gap: number;
  series: Series[];
  /** From every sample to the coarsest level. */
  levels: Level[];
  notes?: (string | null)[];
  /** Whether other tracks contain its values too. */
  derived?: boolean;
}

export interface Mark {
  t: number;
  end: number | null;
  rank: number | null;
  severity: "critical" | "warning" | "info";
  host: boolean;
  label: string;
  detail: string;
  times: number[];
}

export interface Phase {
  from: number;
  to: number;
  rank: number;
  depth: number;
  name: string;
  path: string;
}

/** An allocation that failed. */
export interface Request {
  t: number;
  rank: number;
  in_use: number;
  requested: number;
  limit: number | null;
  label: string;
}

/** What uses the memory of a device. */
export interface Ledger {
  title: string;
  lines: [size: string, name: string, share: number | null][];
  unknown: string | null;
}

/** A panel of lines in the data; `tracks` are places in `Spec.tracks`. */
export interface LinesSpec {
  kind: "lines";
  title: string;
  tracks: number[];
  host?: boolean;
  band?: boolean;
  /** Whether the panel is collapsed, because it shows other memory than the leading finding. */
  more?: boolean;
  focus?: Focus;
}

/** What the panel of the leading finding shows besides its values. */
export interface Focus {
  words: string;
  severity: Mark["severity"];
  host: boolean;
  /** The lowest value of the axis; values below it are outside while higher ones are shown. */
  low: number;
  /** The start and the end of the growth, in time and bytes. */
  trend: [[number, number], [number, number]] | null;
  /** The bytes at which the memory is full, and when that is reached. */
  limit: [number, string] | null;
  requests: Request[];
}

/** A heat map in the data: its cells are at `offset` of the overview. */
export interface HeatSpec {
  kind: "heat";
  title: string;
  more?: boolean;
  rows: string[];
  columns: number;
  low: number;
  high: number;
  offset: number;
  size: number;
}

export interface Spec {
  zero_ms: number;
  zero_ns_rest: number;
  length: number;
  /** Nanoseconds from the start of the run to the start of the drawing. */
  offset?: number;
  /** The track that the overview draws. */
  overview?: number;
  /** What the x axis shows if it is not the time of one run. */
  axis?: string;
  /** Whether there are several ranks. */
  several: boolean;
  tracks: Track[];
  panels: (LinesSpec | HeatSpec)[];
  marks: Mark[];
  phases: Phase[];
  requests: Request[];
  facts: [name: string, value: string][];
  verdict?: [severity: string, text: string];
  advice?: string;
  cause?: string[];
  notes?: string[];
  ledgers?: Ledger[];
}

/** The rectangle of a canvas inside its axes. */
export interface Plot {
  x: number;
  y: number;
  width: number;
  height: number;
  right: number;
  bottom: number;
}

/** A panel that is on the page. */
interface OnPage {
  place: number;
  canvas: HTMLCanvasElement;
  plot: Plot;
}

export interface LinesPanel extends Omit<LinesSpec, "tracks">, OnPage {
  tracks: Track[];
  phases: Phase[];
  marks: Mark[];
  requests: Request[];
  phaseHeight: number;
}

/** A heat map with its cells, and with their picture of one pixel each. */
export interface Heat extends HeatSpec {
  cells: Float64Array[];
  image: HTMLCanvasElement;
}

export interface HeatPanel extends Heat, OnPage {}

export type Panel = LinesPanel | HeatPanel;

export interface Drag {
  kind: "pan" | "zoom";
  start: number;
  end: number;
  x: number;
  from: number;
  to: number;
}

export interface Tip {
  panel: Panel;
  clientX: number;
  clientY: number;
  y: number;
}

/** One line of the box at the cursor. */
export interface Row {
  name: string;
  value: number;
  colour?: string;
  row?: number;
  here?: boolean;
}

export type Context = CanvasRenderingContext2D;
/** From a time or a number of bytes to pixels. */
export type Scale = (value: number) => number;

/** What a server sends for a drawing; the stores are in base64. */
export interface Drawing {
  spec: Spec;
  overview: string;
  detail: string;
}

/** How the script of a served page passes data. */
export interface StormlogPlot {
  /** Is told the shown part in seconds, `null` for all of it. */
  onview: ((view: [from: number, to: number] | null) => void) | null;
  /** Draws data; `seconds` is the wanted part. */
  show: (drawing: Drawing, seconds?: [from: number, to: number]) => Promise<void>;
}

declare global {
  var stormlogPlot: StormlogPlot;
}
