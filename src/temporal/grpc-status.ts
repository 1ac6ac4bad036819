/** gRPC's status codes, which are all that tells the errors of Temporal's client and of its native connection apart. */
export const GRPC_STATUS = {
  canceled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const;

/** The status of an error that is itself an answer of gRPC; undefined for any other error. */
export function grpcStatusOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return typeof code === 'number' ? code : undefined;
}

/** Whether an error is gRPC's answer with this status. */
export function hasGrpcStatus(error: unknown, status: keyof typeof GRPC_STATUS): boolean {
  return grpcStatusOf(error) === GRPC_STATUS[status];
}
