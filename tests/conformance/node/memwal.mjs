// The MemWal SDK of the protocol without nonces tries to store and to find.
import { MemWal } from "@mysten-incubation/memwal";

const client = MemWal.create({
    key: process.env.MEMWAL_PRIVATE_KEY,
    accountId: process.env.MEMWAL_ACCOUNT_ID,
    serverUrl: process.env.MEMWAL_SERVER_URL,
});
const outcome = async (call) => {
    try {
        return `answered ${JSON.stringify(await call())}`;
    } catch (error) {
        return String(error);
    }
};
console.log(
    JSON.stringify([
        await outcome(() => client.remember("a", "default")),
        await outcome(() => client.recall("a", 3, "default")),
    ]),
);
