/** Draws what saved runs measured: `tsx bench/plot.ts <file of the picture> <run.json>...` */
import { readFileSync, writeFileSync } from 'node:fs';
import { init } from 'echarts/dist/echarts.esm.min.mjs';
import { median, type Measured } from './figures.js';

/** Polls of a job, for which the cost is drawn. */
const POLLS = [1, 2, 3, 5, 10, 16, 30, 60, 100];
/** Ours first. */
const COLORS = ['#2563eb', '#9ca3af'];

const [picture, ...files] = process.argv.slice(2);
if (picture === undefined || files.length === 0) throw new Error('name the file of the picture and the runs');
const all = files.flatMap((file) => (JSON.parse(readFileSync(file, 'utf8')) as { measured: Measured[] }).measured);

/** The median of the repetitions. */
function figure(scenario: string, contender: string, name: string): number {
  const measured = all.filter((one) => one.scenario === scenario && one.contender === contender);
  return median(measured.map(({ figures }) => figures[name] ?? NaN));
}

const contenders = [...new Set(all.filter((one) => one.scenario === 'a further poll').map((one) => one.contender))];
const chart = init(null, null, { renderer: 'svg', ssr: true, width: 760, height: 340 });
chart.setOption({
  ...{ animation: false, backgroundColor: '#ffffff', color: COLORS, legend: { bottom: 0 } },
  grid: { left: 70, right: 70, top: 60, bottom: 80 },
  title: { text: 'CPU per poll of all processes, by polls of a job', left: 'center' },
  xAxis: { type: 'log', name: 'polls of the job', nameLocation: 'middle', nameGap: 25 },
  yAxis: { type: 'value', name: 'ms', min: 0 },
  // A job's whole cost divided by its polls: that of a job of one poll, and of each further one.
  series: contenders.map((name) => {
    const [first, next] = [figure('drain', name, 'CPU ms per job'), figure('a further poll', name, 'CPU ms')];
    const data = POLLS.map((polls) => [polls, Math.round((100 * (first + (polls - 1) * next)) / polls) / 100]);
    return { name, type: 'line', data };
  }),
});
writeFileSync(picture, chart.renderToSVGString());
chart.dispose();
