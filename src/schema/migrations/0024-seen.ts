// Whether somebody has read a received message. What came before counts as read.

export const seen = `
alter table inbound_emails add column seen integer not null default 1;
create index inbound_emails_unseen on inbound_emails (inbox_key) where seen = 0;
`
