/** The face of the package `agent-jobs`: the client's, so that a caller who has both packages has one set of classes. */
export * from 'agent-jobs-client';
