/** The face of the package `agent-jobs`: the client's, so that who has both packages has one set of classes. */
export * from 'agent-jobs-client';
