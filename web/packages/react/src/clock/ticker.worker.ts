/** The clock as a file, for pages whose content security policy has no `worker-src blob:`. */
setInterval(() => postMessage(0), 1_000);
