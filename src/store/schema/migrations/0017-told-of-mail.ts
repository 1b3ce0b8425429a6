// An index to find deliveries of webhooks by the mail that their event is about.

export const toldOfMail = `
create index outbound_webhooks_by_mail on outbound_webhooks (about) where about <> '';
`
