// An index to search the subjects of an account's emails for words without reading the emails. It has the order of
// keys, so that a new mail is added at its end. Retries, results and opens do not write it.

export const words = `
create index outbound_emails_words on outbound_emails (user_key, key, campaign_key, subject);
`
