/**
 * A workflow interceptor for tests: suggests to continue as new after the number of events in the memo `eventsPerRun`.
 */
import { workflowInfo, type WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { getActivator } from '@temporalio/workflow/lib/global-attributes.js';

export const interceptors: WorkflowInterceptorsFactory = () => ({
  internals: [
    {
      activate(input, next) {
        const { eventsPerRun } = workflowInfo().memo ?? {};
        if (typeof eventsPerRun === 'number') {
          getActivator().mutateWorkflowInfo((info) => ({
            ...info,
            continueAsNewSuggested: info.historyLength > eventsPerRun,
          }));
        }
        next(input);
      },
    },
  ],
});
