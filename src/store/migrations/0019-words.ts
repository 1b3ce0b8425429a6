// Words are looked for in the subjects of an account's mails without reading the mails: in key order, so that each mail
// is written at the end. Retries, fates and opens do not write it.

export const words = `
create index outbound_emails_words on outbound_emails (user_key, key, campaign_key, subject);
`
