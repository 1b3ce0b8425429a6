// Deliveries of webhooks are found by the mail that they tell of.

export const toldOfMail = `
create index outbound_webhooks_by_mail on outbound_webhooks (about) where about <> '';
`
