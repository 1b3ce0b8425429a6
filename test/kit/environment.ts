// The environment for a server in a process of its own: without the settings of the tests themselves, such as
// POSTRIDER_CORPORA, which a server refuses as unknown.
export const SERVER_ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('POSTRIDER_')),
)
