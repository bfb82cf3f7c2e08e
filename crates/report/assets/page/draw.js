/* Draws everything. */
import { chart, state } from "./chart.js";
import { isPending } from "./columns.js";
import { app } from "./dom.js";
import { drawWith } from "./frame.js";
import { drawHeat } from "./heat.js";
import { drawLines } from "./lines.js";
import { drawOverview } from "./overview.js";
import { showTip } from "./readout.js";

drawWith(() => {
  if (!chart.isDrawn) return;
  for (const panel of chart.panels) if (panel.kind === "heat") drawHeat(panel); else drawLines(panel);
  drawOverview();
  app.dataset.from = String(state.from); app.dataset.to = String(state.to);
  app.dataset.idle = document.querySelector("canvas") && !isPending() ? "1" : "0";
  if (state.tip) showTip(state.tip);
});
