/* Draws at most once in a frame, however much has changed. */

/** @type {() => void} */
let draw = () => {};
let isWaiting = false;
/** @param {() => void} work */
export const drawWith = (work) => { draw = () => { isWaiting = false; work(); }; };
export const drawNow = () => draw();
export const soon = () => { if (!isWaiting) { isWaiting = true; requestAnimationFrame(draw); } };
