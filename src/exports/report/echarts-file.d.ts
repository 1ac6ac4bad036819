/** The library in one file: it loads ten times as fast as its hundreds of modules. */
declare module 'echarts/dist/echarts.esm.min.mjs' {
  export { init } from 'echarts';
  export type { EChartsCoreOption } from 'echarts';
}
