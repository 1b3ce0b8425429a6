// The environment of a separate server process: without the settings of the tests themselves, such as
// POSTRIDER_CORPORA, which a server rejects as unknown.
export const SERVER_ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('POSTRIDER_')),
)
