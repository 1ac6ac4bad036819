import { writeFileSync } from 'node:fs';
import { init, type EChartsCoreOption } from 'echarts/dist/echarts.esm.min.mjs';

const SIZE = { width: 760, height: 340 };
const GRID = { left: 70, right: 70, top: 60, bottom: 80 };

/** Ours first. */
export const COLORS = ['#2563eb', '#9ca3af'];

/** Writes a chart as an SVG file. */
export function draw(option: EChartsCoreOption, file: string, size = SIZE): void {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...size });
  const look = { animation: false, backgroundColor: '#ffffff', color: COLORS, grid: GRID, legend: { bottom: 0 } };
  chart.setOption({ ...look, ...option });
  writeFileSync(file, chart.renderToSVGString());
  chart.dispose();
  console.log(file);
}
