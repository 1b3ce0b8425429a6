// How each attempt was protected: cipher, what asked for TLS, what proved the exchanger, and what DNS said (DNSSEC).

export const security = `
alter table deliveries add column security text;
alter table attempts add column security text;
`
