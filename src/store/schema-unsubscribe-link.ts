// Whether a campaign may start without an unsubscribe link of its author's own (D61).
export const unsubscribeLink = `
alter table campaigns add column require_unsubscribe_link integer not null default 0;
`
