/**
 * Loaded once, before any workflow. The SDK takes a stack trace of every promise that workflow code makes and maps each
 * frame to its source, which took a third of all CPU spent on workflows: three frames still tell where an error comes from.
 */
Error.stackTraceLimit = 3;
