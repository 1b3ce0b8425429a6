// Whether a campaign needs an unsubscribe link in its author's html before it may start (D61).
export const unsubscribeLink = `
alter table campaigns add column require_unsubscribe_link integer not null default 0;
`
