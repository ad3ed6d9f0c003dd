#include "operators/job.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace mgi::test {

std::vector<Table> Job::own(std::vector<Table> parts, std::size_t process) const {
    for (std::size_t e = 0; e < parts.size(); ++e) {
        if (owners_[e] != process) parts[e] = {};
    }
    return parts;
}

std::vector<Came> Job::run(Body const& body) {
    std::vector<Came> all(processes());
    std::vector<std::thread> threads;
    for (std::size_t p = 0; p < processes(); ++p) {
        threads.emplace_back([&, p] {
            ThreadAsProcess one(place_, p, endpoints(), owners_, servers_);
            try {
                all[p].tables = body(one, p);
            } catch (...) {
                all[p].failure = std::current_exception();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    return all;
}

std::vector<Table> Job::result(std::vector<Came>& came) {
    for (Came& one : came) {
        if (one.failure != nullptr) std::rethrow_exception(one.failure);
    }
    std::vector<Table> tables;
    for (std::size_t e = 0; e < endpoints().size(); ++e) {
        for (std::size_t p = 0; p < processes(); ++p) {
            Table& table = came[p].tables.at(e);
            EXPECT_EQ(table.schema, came[0].tables.at(e).schema);
            if (p == owners_[e]) {
                tables.push_back(table);
            } else {
                EXPECT_EQ(table.rows(), 0);
            }
        }
    }
    EXPECT_EQ(place_.channels(), 0U);
    return tables;
}

std::vector<std::size_t> random_owners(Random& random, std::size_t processes, std::size_t more) {
    std::vector<std::size_t> owners;
    for (std::size_t p = 0; p < processes; ++p) owners.push_back(p);
    for (; more != 0; --more) owners.push_back(random.below(processes));
    for (std::size_t e = owners.size(); e > 1; --e) {
        std::swap(owners[e - 1], owners[random.below(e)]);
    }
    return owners;
}

std::vector<std::string> texts_of(std::vector<Came> const& came, ErrorCode code) {
    std::vector<std::string> texts;
    for (Came const& one : came) {
        try {
            if (one.failure != nullptr) std::rethrow_exception(one.failure);
            ADD_FAILURE() << "a process has not failed";
            texts.emplace_back();
        } catch (Error const& error) {
            EXPECT_STREQ(to_string(error.code()), to_string(code)) << error.what();
            texts.emplace_back(error.what());
        }
    }
    return texts;
}

void expect_words(std::string const& text, std::vector<std::string> const& words) {
    for (std::string const& word : words) {
        EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
    }
}

}  // namespace mgi::test
