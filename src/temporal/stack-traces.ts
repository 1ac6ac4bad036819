/**
 * Loaded once, before any workflow. The SDK takes a stack trace of every promise of workflow code and maps each frame
 * to its source. That took a third of the CPU spent on workflows (see temporalio/sdk-typescript#1587). Three frames
 * still show the place of an error. This can go when the SDK takes stack traces on demand.
 */
Error.stackTraceLimit = 3;
