"""Each security promise, and the tests that prove it. Promises that no other file tests are tested here."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.api import Api
from websockets.asyncio.client import connect

if TYPE_CHECKING:
    from tests.server.served import Served

TESTS = Path(__file__).resolve().parents[1]

KEPT_BY = {
    "every object is checked, by its own id": [
        "server/test_matrix.py::test_a_caller_without_permission_is_refused_and_nothing_changes",
        "documents/test_access_control.py::test_the_policy_is_called_for_every_request",
        "documents/test_routes.py::test_each_role_permits_what_it_should",
    ],
    "force-take and administration by role": [
        "documents/test_access_control.py::test_only_owners_take_and_never_a_personal_document",
        "server/test_applications_members.py::test_the_last_owner_stays_the_owner",
    ],
    "joining is authorised before any state exists": [
        "documents/test_socket.py::test_a_room_that_a_user_may_not_see_is_never_created",
    ],
    "joining does not give write rights": [
        "server/test_security.py::test_a_watcher_may_not_write",
    ],
    "an allow-list of origins at the handshake": [
        "documents/test_socket.py::test_pages_of_other_origins_are_refused_at_the_handshake",
        "documents/test_socket_limits.py::test_other_pages_may_not",
    ],
    "no token in an address": [
        "server/test_accounts_login.py::test_an_access_token_in_the_url_is_ignored",
        "server/test_security.py::test_a_token_in_the_url_of_a_socket_does_not_authenticate",
        "documents/test_tickets.py::test_a_ticket_is_accepted_once_however_many_try",
    ],
    "sockets without a login end in seconds and are limited in number": [
        "documents/test_socket.py::test_a_silent_socket_is_closed",
        "documents/test_socket.py::test_unauthenticated_sockets_are_capped",
    ],
    "the algorithm of tokens is fixed; issuer, audience and end are checked": [
        "server/test_tokens.py::test_a_forged_token_is_refused_every_time",
        "server/test_tokens.py::test_it_expires_on_time_also_when_it_is_cached",
    ],
    "sockets end with their token, and when it is revoked": [
        "documents/test_socket.py::test_a_socket_closes_when_its_login_expires",
        "documents/test_socket.py::test_a_session_that_ends_closes_its_sockets_and_no_others",
        "server/test_app.py::test_an_ended_login_has_no_socket_and_no_ticket",
    ],
    "rights are checked at every message and when they change": [
        "documents/test_socket.py::test_permissions_are_checked_at_every_message",
        "documents/test_socket.py::test_changed_permissions_close_rooms",
    ],
    "secrets are stored as hashes and compared in constant time": [
        "server/test_logins.py::test_tokens_are_stored_only_as_hashes",
        "server/test_passwords.py::test_the_stored_hash_does_not_show_the_password",
        "server/test_passwords.py::test_unknown_users_take_as_long_as_known_ones",
        "documents/test_tickets.py::test_reading_the_store_reveals_no_ticket",
    ],
    "secrets are in no answer, event or log": [
        "server/test_accounts_secrets.py::test_no_secret_is_in_any_answer_or_in_the_log",
        "documents/test_routes.py::test_names_of_tabs_and_tickets_appear_nowhere",
    ],
    "fields that the caller may not set are refused": [
        "server/test_applications.py::test_fields_that_clients_may_not_set_are_refused",
        "server/test_accounts_login.py::test_a_body_with_unknown_fields_is_not_valid",
        "server/test_document_routes.py::test_unknown_fields_of_a_document_are_refused",
        "documents/test_routes.py::test_an_invalid_body_is_refused",
    ],
    "a rate and a quota for each principal": [
        "server/test_app.py::test_a_budget_that_is_used_up_answers_429_on_every_route",
        "server/test_app.py::test_rates_are_per_user",
        "server/test_save.py::test_a_user_over_the_byte_quota_is_refused_and_nothing_is_dropped",
        "documents/test_socket.py::test_sockets_are_capped_per_user",
        "documents/test_socket.py::test_rooms_are_capped_per_socket",
        "documents/test_socket.py::test_a_flood_of_messages_closes_the_socket",
    ],
    "a limit on acquiring never prevents renewing, saving and releasing": [
        "server/test_app.py::test_a_caller_over_the_lock_budget_can_still_renew_save_and_release",
    ],
    "times, names and messages have bounds": [
        "server/test_settings.py::test_times_are_bounded",
        "documents/test_routes.py::test_numbers_and_reasons_have_bounds",
        "documents/test_routes.py::test_an_invalid_id_is_refused",
        "documents/test_socket.py::test_a_message_that_is_too_large_closes_the_socket",
        "server/test_middleware.py::test_a_body_without_content_length_is_counted",
    ],
    "cookies are for this site, and need a second token": [
        "server/test_accounts_login.py::test_the_refresh_token_is_only_in_a_cookie_for_our_path",
        "server/test_accounts_refresh.py::test_a_request_without_our_csrf_header_is_refused",
        "server/test_accounts_refresh.py::test_the_csrf_header_alone_is_not_enough",
    ],
    "guesses are limited for each account, and never keep its owner out": [
        "server/test_password_limits.py::test_an_account_has_a_limit_however_many_addresses_ask",
        "server/test_password_limits.py::test_a_browser_that_has_signed_in_before_is_not_kept_out",
        "server/test_password_limits.py::test_the_current_password_cannot_be_guessed_with_a_token",
    ],
    "an owner has so much space": [
        "server/test_quota.py::test_an_owner_has_so_many_documents",
        "server/test_quota.py::test_versions_in_all_documents_of_an_owner_share_the_space",
    ],
    "a request causes a bounded number of errors": [
        "server/test_request_bounds.py::test_unknown_members_cause_one_error",
        "documents/test_socket.py::test_a_ping_asks_for_one_permission_however_many_documents_are_joined",
    ],
    "errors show no stack and nothing of others": [
        "server/test_middleware.py::test_an_unexpected_error_is_a_problem_without_details",
        "server/test_middleware.py::test_the_reason_for_an_unavailable_store_is_only_in_the_log",
        "server/test_health.py::test_a_missing_dependency_is_named_without_its_address",
    ],
    "the documentation is closed in production": [
        "server/test_app.py::test_the_documentation_is_closed_by_default",
    ],
    "every grant, take and refusal is audited": [
        "documents/test_routes.py::test_grants_takes_and_refusals_are_audited",
        "documents/test_access_control.py::test_every_refusal_is_logged_as_fields",
    ],
    "demo passwords are refused outside the demo": [
        "server/test_demo.py::test_outside_the_demo_its_passwords_are_refused",
        "server/test_settings.py::test_the_demo_listens_on_loopback_only",
    ],
    "the whole interface is fuzzed": [
        "server/test_schemathesis.py",
        "server/test_state_machine.py",
    ],
}


@pytest.mark.parametrize("promise", KEPT_BY)
def test_every_promise_names_an_existing_test(promise: str) -> None:
    for test in KEPT_BY[promise]:
        path, _, name = test.partition("::")
        tree = ast.parse((TESTS / path).read_text())
        names = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert not name or name in names, test


async def test_a_token_in_the_url_of_a_socket_does_not_authenticate(service: Served) -> None:
    async with service.client() as client, Api(client) as api:
        ana = await api.register()
        address = service.base_url.replace("http", "ws") + f"/ws?token={ana.token}&access_token={ana.token}"
        async with connect(address) as socket:
            await socket.send(json.dumps({"type": "ping", "data": {}}))
            received = [json.loads(await socket.recv())["type"]]
            await socket.wait_closed()
        assert received == ["error"]
        assert socket.close_code == 4401
        # uvicorn's own log of requests would show it.
        assert ana.token not in service.log()


async def test_a_watcher_may_not_write(service: Served) -> None:
    async with service.client() as client, Api(client) as api:
        olga, vera = await api.register("Olga"), await api.register("Vera")
        application_id = await olga.create_application()
        await olga.add_member(application_id, vera, "viewer")
        document_id = await olga.create_document(application_id=application_id)
        grant = (await olga.http.post(f"/api/documents/{document_id}/lock")).json()
        async with connect(service.base_url.replace("http", "ws") + "/ws") as socket:
            for kind, data in (
                ("authenticate", {"token": vera.token}),
                ("join", {"document_id": document_id}),
                ("heartbeat", {"document_id": document_id}),
            ):
                await socket.send(json.dumps({"type": kind, "data": data}))
                answer = json.loads(await socket.recv())
            assert (answer["type"], answer["data"]["extended"]) == ("heartbeat", False)
            # Every watcher can see the fence; it gives no permission.
            body = {"content": "Vera's", "base_version": 0, "fence": grant["fence"]}
            refused = await vera.http.put(f"/api/documents/{document_id}/content", json=body)
            assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
            assert (await vera.http.post(f"/api/documents/{document_id}/lock")).status_code == 403
